"""How much memory a run will need, about."""

import torch
from torch import Tensor, nn

from pgig.chunks import CPU_BYTES
from pgig.runs.job import Job
from pgig.vision.preprocess import example


def needed_memory(job: Job, model: nn.Module, workers: int) -> int:
    """Bytes: the model twice, patterns and w * p, a chunk of gradients, a batch of forward passes; per worker."""
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    copies = 4 if job.patterns else 2
    image = 3 * job.preprocess.size**2 * torch.float32.itemsize
    forward = 3 * job.batch_size * _largest(model, job.preprocess.size)  # input, output and work space of one operation
    return workers * (copies * weights + 2 * CPU_BYTES + forward + 100 * image)


def _largest(model: nn.Module, size: int) -> int:
    """The largest output of a module for one image, in bytes."""
    found = [0]

    def note(_: nn.Module, __: object, output: object) -> None:
        if isinstance(output, Tensor):
            found.append(output.numel() * output.element_size())

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    try:
        with torch.no_grad():
            model(example(size))
    finally:
        for hook in hooks:
            hook.remove()
    return max(found)
