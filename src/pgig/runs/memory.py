"""How much memory a run will need, about."""

import torch
from torch import nn

from pgig.chunks import CPU_BYTES
from pgig.runs.job import Job


def needed_memory(job: Job, model: nn.Module, evaluator_bytes: int, workers: int) -> int:
    """Bytes: the model twice, patterns and w * p, a chunk of gradients, the evaluator's, references; per worker."""
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    copies = 4 if job.patterns else 2
    image = 3 * job.preprocess.size**2 * torch.float32.itemsize
    return workers * (copies * weights + 2 * CPU_BYTES + evaluator_bytes + 200 * image)
