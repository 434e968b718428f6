"""How many points go through the model at once, so that memory stays bounded whatever their number."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from pgig.errors import PgigError

# What autograd may keep for one chunk on a CPU. Large enough to share the reading of the weights between points, small
# enough that fresh memory does not cost more than that: for VGG-16 at 224 x 224, chunks of three, the fastest there.
CPU_BYTES = 256 * 2**20
# More points than the paper's paths have would only take more memory; where points are tiny, more take less time.
MOST_POINTS, MOST_TINY_POINTS, TINY_BYTES = 25, 1024, 8 * 2**20


class ChunkSize:
    """The number of points of the next chunk.

    Without a `batch_size`, the first chunk has one point, and the memory that autograd keeps for it decides about the
    rest. Nothing is remembered between calls: the same call makes the same chunks, and so the same bits.
    """

    def __init__(self, batch_size: int | None, device: torch.device) -> None:
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise PgigError(f"batch_size must be None, 'whole' or a whole number of at least 1, got {batch_size!r}")
        self._most = batch_size
        self._device = device

    @property
    def is_known(self) -> bool:
        return self._most is not None

    def next(self, remaining: int) -> int:
        if self._most is None:
            return 1
        chunks = -(-remaining // self._most)
        return -(-remaining // chunks)  # even chunks: a short last one would cost more than its share

    def halve(self, failed: int) -> None:
        """After an out-of-memory error with `failed` points."""
        self._most = max(1, failed // 2)

    @contextmanager
    def measured(self, inputs: Sequence[Tensor], model: object) -> Iterator[None]:
        """Settle the size, if it is still unknown, by what a forward pass over `inputs` keeps."""
        if self.is_known:
            yield
            return
        kept: dict[int, int] = {}
        weights = (
            {w.untyped_storage().data_ptr() for w in model.parameters()} if isinstance(model, nn.Module) else set()
        )

        def note(tensor: Tensor) -> Tensor:
            with torch._C.DisableTorchFunction():  # it is nothing that the model does
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in weights:
                    kept[storage.data_ptr()] = storage.nbytes()
                # not the tensor itself: where an operation saves its own output, that would be a cycle, which only a
                # backward pass breaks, and the whole graph would stay for ever
                return tensor.detach()

        with saved_tensors_hooks(note, lambda tensor: tensor):
            yield
        # beside what autograd keeps: the places, the leaf, its copy, the gradient, and terms
        own = 6 * sum(x.nbytes for x in inputs)
        each = (sum(kept.values()) + own) // len(inputs[0])
        tiny = min(MOST_TINY_POINTS, TINY_BYTES // each)
        self._most = max(1, tiny, min(MOST_POINTS, self._budget() // each))

    def _budget(self) -> int:
        if self._device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self._device)
            return free // 2
        return CPU_BYTES
