"""Plans of a subject: made once for a shape, and forgotten when they turn out to be wrong."""

from torch import Tensor, nn

from pgig.incremental.export import TracingError
from pgig.incremental.plan import Plan
from pgig.incremental.planner import plan_of
from pgig.subject.subject import Subject


def plan_for(subject: Subject, x: Tensor) -> Plan:
    """The subject's plan for images like x, made once; raises `TracingError` each time where there is none."""
    # a plan, or why there is none: an error itself would hold the model
    plans = subject.recall("plans", dict[object, Plan | str])
    if not isinstance(subject.model, nn.Module):
        raise TracingError("it is no module")
    key = tuple(x.shape[1:]), x.dtype, x.device
    if key not in plans:
        plans.clear()  # they take memory: one shape at a time
        try:
            plans[key] = plan_of(subject.module, x[:1])
        except TracingError as error:
            plans[key] = str(error)
    found = plans[key]
    if isinstance(found, str):
        raise TracingError(found)
    return found


def forget_plan(subject: Subject) -> None:
    """It turned out to be wrong: the next one is made anew."""
    subject.recall("plans", dict[object, Plan | str]).clear()
