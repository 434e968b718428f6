"""Why part of a model is computed whole, in words."""

from collections.abc import Sequence
from typing import Any

from torch import fx

# the first that is found in the name of an operator tells what it is; these names are torch's
_WORDS = {
    "adaptive_avg_pool": "global pooling",
    "adaptive_max_pool": "global pooling",
    "pad": "padding by other than constants",
    "var": "statistics over the whole map",
    "std": "statistics over the whole map",
    "scaled_dot_product_attention": "attention",
    "softmax": "attention",
    "bmm": "attention",
    "matmul": "a product of matrices",
    "einsum": "a product of matrices",
    "linear": "a linear layer",
    "addmm": "a linear layer",
    "group_norm": "group norm, over the whole map",
    "instance_norm": "instance norm, over the whole map",
    "layer_norm": "layer norm of tokens",
    "native_batch_norm": "a norm over the batch",
    "pixel_shuffle": "a map in another arrangement",
    "roll": "a shifted map",
    "flip": "a turned map",
    "view": "a map in another shape",
    "reshape": "a map in another shape",
    "flatten": "a map in another shape",
    "permute": "a map in another order",
    "transpose": "a map in another order",
    "split": "a map in parts",
    "slice": "a map in parts",
    "cat": "maps joined along another axis than channels",
    "expand": "a map in another shape",
    "unfold": "windows of its own",
    "index": "places by number",
    "fft": "a Fourier transform",
    "conv": "a convolution of another kind",
}


def in_words(node: fx.Node) -> str:
    name = operator_name(node)
    if name in ("mean", "amax", "sum", "softmax", "_softmax"):
        over = "attention" if "softmax" in name else "global pooling"
        return f"{name.strip('_')} over channels" if _axes(node) == {1} else over
    return next((words for part, words in _WORDS.items() if part in name), name)


def _axes(node: fx.Node) -> set[int]:
    """The axes that are reduced, counted from the front."""
    if len(node.args) < 2 or not isinstance(node.args[1], int | list | tuple):
        return set()
    axes = [node.args[1]] if isinstance(node.args[1], int) else list(node.args[1])
    value = node.meta.get("val")
    kept = len(node.args) > 2 and node.args[2] is True
    size = (value.dim() if value is not None else 4) + (0 if kept or "softmax" in str(node.target) else len(axes))
    return {int(axis) % size for axis in axes if isinstance(axis, int)}


def operator_name(node: fx.Node) -> str:
    return str(node.target).removeprefix("aten.").partition(".")[0]


def place_of(node: fx.Node) -> str:
    """The module that calls it, by its name in the model."""
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    paths = [str(path) for path, _ in stack.values() if str(path).startswith("model")]
    return max(paths, key=len, default="model").removeprefix("model").lstrip(".")


def reason(refused: Sequence[fx.Node], layers: int) -> str:
    """From where on, why, and how many layers that leaves."""
    first = refused[0]
    place = place_of(first)
    whole = f"{layers} layer{'s' if layers != 1 else ''} computed whole"
    return f"from {place!r} on: {in_words(first)} ({whole})" if place else f"{in_words(first)} ({whole})"
