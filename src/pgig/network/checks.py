"""What a model must be, for the engine and for a rule."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from pgig.errors import PgigError
from pgig.methods.rules import Rule

# what a model that was made for whole batches, or for other shapes, says of one row
FAILURES = RuntimeError, ValueError, TypeError, IndexError, AssertionError


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def without_compilation(model: Callable[..., Any]) -> Callable[..., Any]:
    """The module inside `torch.compile`: rules act on what Python calls, and compiled code calls nothing."""
    original = getattr(model, "_orig_mod", None)
    return original if isinstance(original, nn.Module) else model


@contextmanager
def uncompiled() -> Iterator[None]:
    """Lets compiled parts of a model, and compiled functions, run as the Python they were made from."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled, and the import would take seconds
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def check_kinds(model: object, patterns: object) -> None:
    if not callable(model):
        raise PgigError(f"the model must be a module or a callable, got {type(model).__name__}")
    if patterns is not None and not isinstance(patterns, Mapping):
        raise PgigError(f"patterns must be a mapping of layer name to tensor, got {type(patterns).__name__}")


def check_model(model: Callable[..., Any], rules: Iterable[Rule], patterns: Mapping[str, Tensor] | None) -> None:
    if isinstance(model, nn.Module):
        _check_eval(model)
        check_usable(model)
    for rule in rules:
        if rule.needs_patterns and patterns is None:
            given = "patterns=pgig.estimate_patterns(model, batches)"
            raise PgigError(f"the {rule.name} rule needs patterns: pass {given}, or 'auto' for those that are kept")
        if rule.needs_patterns and not isinstance(model, nn.Module):
            raise PgigError(f"the {rule.name} rule needs a module, to know the layers of its patterns by name")
        if rule.gate is not None or rule.needs_patterns or rule.keeps_input:
            _check_visible(model, rule)


def check_usable(model: nn.Module) -> None:
    """Refuse weights that are not there, or that autograd refuses."""
    if not any(tensor.is_meta or tensor.is_inference() for tensor in (*model.parameters(), *model.buffers())):
        return
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_meta:
            raise PgigError(f"the model has no weights: {name!r} is on the meta device. Load them first")
        if tensor.is_inference():
            raise PgigError(
                f"the model was made under torch.inference_mode ({name!r}), and has no gradients: make it outside"
            )


def check_finite(model: nn.Module) -> None:
    """Parameters and the statistics of norms; other buffers may be infinite, as masks are."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if not tensor.is_floating_point():
            continue
        is_weight = isinstance(tensor, nn.Parameter) or "running_" in name
        if bool(tensor.isnan().any()) or (is_weight and not bool(tensor.isfinite().all())):
            raise PgigError(f"the model has NaN or infinite weights ({name!r})")


def _check_eval(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if module.training and _differs_in_training(module):
            kind = type(module).__name__
            raise PgigError(f"the model is in training mode ({kind} {name!r}): call model.eval() first")


def _differs_in_training(module: nn.Module) -> bool:
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return float(module.dropout) > 0
    return isinstance(module, _BatchNorm | nn.RReLU)


def _check_visible(model: object, rule: Rule) -> None:
    if isinstance(model, nn.Module) and any(isinstance(m, nn.DataParallel) for m in model.modules()):
        raise PgigError(f"the {rule.name} rule cannot act inside DataParallel: pass model.module")
    if isinstance(model, nn.Module) and (name := is_scripted(model)):
        raise PgigError(f"the {rule.name} rule cannot act inside TorchScript ({name}): pass the original module")


def is_scripted(model: nn.Module) -> str | None:
    """The name of a scripted module in it, if there is one."""
    return next((type(m).__name__ for m in model.modules() if isinstance(m, torch.jit.ScriptModule)), None)
