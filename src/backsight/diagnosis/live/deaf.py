"""BS114: a training whose loss does not depend on what its model was given."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType

import torch

from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import named
from backsight.diagnosis.wording import counted, listed, numbered, shown, sure_if, warning
from backsight.snapshot import groups
from backsight.source import Cut
from backsight.story.cuts import cuts
from backsight.story.failure import failure_at
from backsight.story.sections import losses
from backsight.story.trained import trained
from backsight.tape import Node, capture, no_torch_function
from backsight.tracing import current

DEAF = "BS114"

_OF_LABELS = ("comparison", "integer", "index")
"""Cuts that do no harm on the way to a label, as most of them are."""


def unheard(
    model: str, steps: int, frame: FrameType, *, since: int = 0, reached: Sequence[str] = (), total: int = 0
) -> Finding:
    """Return the finding that no gradient came back to what a model returned, but to `reached` of `total`."""
    cut, sure = _cut(frame)
    elsewhere = "came from elsewhere, such as a penalty on the weights"
    if 0 < len(reached) < total:
        elsewhere = f"only reached {listed(reached, 3)}, without it"
    began = f" from step {numbered(since)} on" if since > 1 else ""
    return warning(
        DEAF,
        f"The loss does not depend on the output of {model}.",
        (
            f"{model} was called with gradients enabled, but in {counted(steps, 'step')}{began} its output received no "
            f"gradient. The gradients of these steps {elsewhere}.",
            shown(cut.place, f"detaches the loss: {cut.why}.", sure_if(sure)) if cut is not None else None,
        ),
        "Compute the loss from the output itself, without .detach(), .data, .item() or torch.no_grad() in between.",
        cut.place if cut is not None else None,
        exact=cut is None or sure,
        since=since or None,
    )


def indifferent(
    model: str, rows: int, steps: int, output: torch.Tensor | None = None, stepped: torch.optim.Optimizer | None = None
) -> Finding:
    """Return the finding that a model gives one and the same answer to each row of its input.

    output: what it has returned, with its graph. stepped: the optimizer that has made the last step.
    """
    dead, which = _dead(output) if output is not None else (None, "")
    if dead is not None:
        watch = current()
        line = watch.line_of(dead) if watch is not None else None
        says = f"{which}: all of its units are 0 for every row, so no gradient passes it."
        rates = sorted({str(group["lr"]) for group in groups(stepped)}) if stepped is not None else []
        rate = f" of {named(stepped)}, {listed(rates)}" if rates else ""
        return warning(
            DEAF,
            f"{model} returns bit-identical outputs for all {counted(rows, 'row')} of its input: a ReLU in it is dead.",
            (
                shown(line.place, f"runs {says}") if line is not None else f"Dead is {says}",
                f"This happened in {counted(steps, 'step')} in a row, although its input rows differ.",
            ),
            f"If they differed at first, the steps were too large: lower the learning rate{rate}, and start anew: "
            "a dead ReLU does not recover. If not, check the scale of the inputs and of the first weights.",
            line.place if line is not None else None,
        )
    return warning(
        DEAF,
        f"{model} returns bit-identical outputs for all {counted(rows, 'row')} of its input.",
        (f"This happened in {counted(steps, 'step')} in a row, although its input rows differ.",),
        "Find where the rows become equal: a layer whose units are all dead, a mask that covers everything, a mean "
        f"over the wrong dimension, an unused input. {IN_A_RECORDING} marks the layers whose gradients are zero.",
    )


def _dead(output: torch.Tensor) -> tuple[Node | None, str]:
    """Return the first ReLU behind a result that lets nothing through, and which it is: `ReLU 1 of 3`."""
    with no_torch_function():
        graph = capture(output)
    every = sorted((each for each in graph.nodes if each.op == "Relu"), key=lambda each: each.sequence or 0)
    for k, node in enumerate(every, 1):
        held = next((saved.tensor() for saved in node.saved if saved.name == "result"), None)
        if held is not None and is_zero(held) is True:
            return node, f"ReLU {k} of {len(every)}"
    return None, ""


IN_A_RECORDING = "After `backsight run --record`, `backsight runs show`"
"""What shows more of a training, where it is not recorded already."""


def _cut(frame: FrameType) -> tuple[Cut | None, bool]:
    """Return what the source shows to cut off a loss of the functions that run; and whether nothing else may."""
    failure = failure_at(Warning(), frame)
    every = cuts(failure, trained(failure), starts=losses(failure.users)[:1])
    first = {each.cut.place.position: each.cut for each in every if not each.before and each.verdict is not False}
    found = sorted(first.values(), key=lambda cut: cut.kind in _OF_LABELS)
    plain = [cut for cut in found if cut.kind not in _OF_LABELS]
    return next(iter(found), None), len(plain or found) == 1
