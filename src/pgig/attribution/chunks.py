"""How many points go through the model at once, so that memory stays bounded whatever their number."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from pgig.errors import PgigError

# What autograd may keep for one chunk on a CPU: large enough to share the reading of the weights between points, small
# enough that fresh memory does not cost more than that.
CPU_BYTES = 256 * 2**20
# Where points are large, a few at once are still faster than one or two, and may take more.
FEW_POINTS, FEW_BYTES = 5, 768 * 2**20
# More points than the paper's paths have would only take more memory; where points are tiny, more take less time.
MOST_POINTS, MOST_TINY_POINTS, TINY_BYTES = 25, 1024, 32 * 2**20

_LARGE_BLOCK = 31 * 2**20


@cache
def expect_large_blocks() -> None:
    """Once in a process: let the C library's allocator see a large block come and go.

    glibc gives freed memory back to the system beyond a bound that it learns from the largest block freed so far, up to
    32 MiB. Before it has seen one, what a chunk's pass frees is given back and mapped anew for the next chunk, page by
    page, which can take a third of the time. Elsewhere this does nothing.
    """
    torch.empty(_LARGE_BLOCK, dtype=torch.uint8)


class ChunkSize:
    """The number of points of the next chunk: the caller's, or by the memory that autograd keeps for one point."""

    def __init__(self, batch_size: int | None, device: torch.device) -> None:
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise PgigError(f"batch_size must be None, 'whole' or a whole number of at least 1, got {batch_size!r}")
        self._most = batch_size
        self._device = device

    @property
    def is_known(self) -> bool:
        return self._most is not None

    def settle(self, each: int) -> None:
        """each: the bytes that one point takes."""
        tiny = min(MOST_TINY_POINTS, TINY_BYTES // each)
        few = min(FEW_POINTS, self._budget(FEW_BYTES) // each)
        self._most = max(1, tiny, few, min(MOST_POINTS, self._budget(CPU_BYTES) // each))

    def next(self, remaining: int) -> int:
        assert self._most is not None
        chunks = -(-remaining // self._most)
        return -(-remaining // chunks)  # even chunks: a short last one would cost more than its share

    def halve(self, failed: int) -> None:
        """After an out-of-memory error with `failed` points."""
        self._most = max(1, failed // 2)

    def _budget(self, on_a_processor: int) -> int:
        if self._device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self._device)
            return free // 2
        return on_a_processor


class Kept:
    """What autograd keeps of a forward pass."""

    def __init__(self) -> None:
        self._storages: dict[int, int] = {}

    def bytes_per_row(self, inputs: Sequence[Tensor]) -> int:
        """With what else a point takes: the place, the leaf, its copy, the gradient, and terms."""
        own = 6 * sum(x.nbytes for x in inputs)
        return (sum(self._storages.values()) + own) // len(inputs[0])

    @contextmanager
    def watching(self, model: object) -> Iterator[None]:
        weights = (
            {w.untyped_storage().data_ptr() for w in model.parameters()} if isinstance(model, nn.Module) else set()
        )

        def note(tensor: Tensor) -> Tensor:
            with torch._C.DisableTorchFunction():  # it is nothing that the model does
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in weights:
                    self._storages[storage.data_ptr()] = storage.nbytes()
                # not the tensor itself: where an operation saves its own output, that would be a cycle, which only a
                # backward pass breaks, and the whole graph would stay for ever
                return tensor.detach()

        with saved_tensors_hooks(note, lambda tensor: tensor):
            yield
