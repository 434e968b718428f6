"""How much memory a run will need, about."""

import torch
from torch import nn

from pgig.attribution.chunks import CPU_BYTES, FEW_BYTES
from pgig.explainers.registry import explainers
from pgig.runs.request import Request

_BASE = 400 * 2**20  # what the libraries take themselves


def needed_memory(asked: Request, model: nn.Module, evaluator_bytes: int, workers: int) -> int:
    """Bytes: Python and torch, the model twice, patterns and w * p, a chunk of gradients, the evaluator's, references,
    the explainers' own, each for every worker.
    """
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    copies = 4 if asked.patterns else 2
    image = 3 * asked.preprocess.size**2 * torch.float32.itemsize
    own = max(explainer.needs.memory for explainer in explainers(asked.methods).values())
    return workers * (_BASE + copies * weights + CPU_BYTES + FEW_BYTES + evaluator_bytes + 200 * image + own)
