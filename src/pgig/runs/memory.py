"""How much memory a run will need, about."""

import torch
from torch import nn

from pgig.attribution.chunks import CPU_BYTES
from pgig.explainers.occlusion import OCCLUSION_BYTES
from pgig.runs.job import Job

_BASE = 400 * 2**20  # what the libraries take themselves


def needed_memory(job: Job, model: nn.Module, evaluator_bytes: int, workers: int) -> int:
    """Bytes: Python and torch, the model twice, patterns and w * p, a chunk of gradients, the evaluator's, references,
    occlusion's, each for every worker.
    """
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    copies = 4 if job.patterns else 2
    image = 3 * job.preprocess.size**2 * torch.float32.itemsize
    occlusion = OCCLUSION_BYTES if any(name.startswith("occlusion") for name in job.methods) else 0
    return workers * (_BASE + copies * weights + 2 * CPU_BYTES + evaluator_bytes + 200 * image + occlusion)
