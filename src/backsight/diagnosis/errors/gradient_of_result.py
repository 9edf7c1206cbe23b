"""BS216: the gradient of a tensor is read that is the result of a computation, so that backward leaves none in it."""

from __future__ import annotations

import re

from backsight.diagnosis.errors.registry import explains
from backsight.diagnosis.evidence.gradients import Made, Read, gradient_read, made
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shaped, shown
from backsight.story.failure import Failure
from backsight.story.memory import shape_of

CODE = "BS216"


@explains(CODE, r"The \.grad attribute of a Tensor that is not a leaf Tensor is being accessed")
def gradient_of_result(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor, the statement that computed it, and how to get at its gradient."""
    read = gradient_read(failure)
    if read is None or not read.is_result:
        return _by_message(failure)
    origin = made(read)
    return Finding(
        CODE,
        "warning",
        f"{read.name}.grad is None: {read.name} is the result of a computation, and backward leaves a gradient in "
        "leaves only.",
        computed(read, origin),
        kept(read, origin),
        source=str(read.place),
    )


def computed(read: Read, origin: Made | None) -> tuple[str, ...]:
    """How it came about, as evidence."""
    says = f"computes {read.name}, a tensor of shape {shaped(shape_of(read.tensor))}."
    lines = [shown(origin.place, says)] if origin else []
    return (*lines, shown(read.place, f"reads {read.text}.grad, which is None."))


def kept(read: Read, origin: Made | None) -> str:
    """How to have a gradient in it."""
    if origin and origin.rewritten:
        return f"Make it a leaf, by asking for the gradient last: {origin.rewritten}."
    return (
        f"Call {read.name}.retain_grad() right after it is computed, before backward(). Or ask for the gradient "
        f"alone: torch.autograd.grad(loss, {read.name})."
    )


def _by_message(failure: Failure) -> Finding:
    return Finding(
        CODE,
        "warning",
        "The .grad of a tensor is read that is the result of a computation: backward leaves a gradient in leaves only.",
        (shown(failure.user.place, "reads it."),) if failure.user else (),
        "Call retain_grad() on the tensor right after it is computed, or use torch.autograd.grad(loss, tensor).",
        source=failure.source,
        exact=False,
    )
