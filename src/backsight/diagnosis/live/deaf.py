"""BS114: a training whose loss does not depend on what its model was given."""

from __future__ import annotations

from types import FrameType

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, shown
from backsight.findings.evidence import Fact
from backsight.source import Cut, backward_roots, cuts, function_at

DEAF = "BS114"


def unheard(model: str, steps: int, frame: FrameType) -> Finding:
    """Return the finding that no gradient came back to what a model returned; `frame` is where the step is made."""
    cut = _cut(frame)
    evidence: list[Fact] = [
        f"{model} was called with gradients enabled, but in {counted(steps, 'step')} its output received no gradient. "
        "The gradients of these steps came from elsewhere, such as a penalty on the weights."
    ]
    if cut is not None:
        evidence.append(shown(cut.place, f"detaches the loss: {cut.why}."))
    return Finding(
        DEAF,
        "warning",
        f"The loss does not depend on the output of {model}.",
        tuple(evidence),
        "Compute the loss from the output itself, without .detach(), .data, .item() or torch.no_grad() in between.",
        source=str(cut.place) if cut is not None else None,
    )


def indifferent(model: str, rows: int, steps: int) -> Finding:
    """Return the finding that a model gives one and the same answer to each row of its input."""
    return Finding(
        DEAF,
        "warning",
        f"{model} returns bit-identical outputs for all {counted(rows, 'row')} of its input.",
        (f"This happened in {counted(steps, 'step')} in a row, although its input rows differ.",),
        "Find where the rows become equal: a layer whose units are all dead, a mask that covers everything, a mean "
        "over the wrong dimension, an unused input. `backsight run --record` shows the first layer where they do.",
    )


def _cut(frame: FrameType) -> Cut | None:
    """Return what the source shows to cut off a loss of this function."""
    body = function_at(frame.f_code)
    every = (cut for root, place in backward_roots(body) if body for cut in cuts(body, root, place.line))
    return next(every, None)
