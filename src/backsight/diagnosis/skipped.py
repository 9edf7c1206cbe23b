"""BS113: no parameter moves, because a gradient scaler skips every step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import method_of
from backsight.diagnosis.scene import Site
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Place
from backsight.source.body import body_around, calls_in, statements

CODES = ("BS113",)

_USUAL = 2.0**16
"""The scale that a scaler begins with, if nothing is said. What is not finite below it is so whatever the scale."""


@dataclass(frozen=True)
class Scaled:
    """The scaler of a training, by what it is called, and the statement that lets it make a step."""

    name: str
    scale: float
    backoff: float
    step: Place | None


def scaled(site: Site) -> Scaled | None:
    """Return the only gradient scaler that is in use while the backward at this place runs."""
    found = [(each, name) for each, name in search((), collect=(torch.amp.GradScaler,)).found]
    held = [(each, name) for each, name in found if (namespace(each) or {}).get("_enabled")]
    if len(held) != 1:
        return None
    scaler, name = held[0]
    values = namespace(scaler) or {}
    scale, backoff = values.get("_init_scale"), values.get("_backoff_factor")
    if not isinstance(scale, int | float) or not isinstance(backoff, int | float):
        return None
    body, own = body_around(*site), name.path.rpartition(".")[2]
    steps = (
        body.place(each)
        for each in (statements(body.node) if body else ())
        if body and any(method_of(call) == (own, "step") for call in calls_in(each))
    )
    return Scaled(name.path, float(scale), float(backoff), next(steps, None))


def never_stepped(seen: Scaled, backwards: int) -> Finding:
    """Return the finding that no step was made in the whole run."""
    slow = seen.scale * seen.backoff**backwards > _USUAL
    evidence: list[Fact] = (
        [shown(seen.step, "skips the step while a gradient is infinite or NaN.")] if seen.step else []
    )
    evidence.append(f"There were {backwards:,} backward passes or more, and no step.")
    evidence.append(
        f"It multiplies the loss by {seen.scale:,.0f} at first, and by {seen.backoff:g} times that after each step "
        "that it skips."
    )
    fix = (
        f"Create {seen.name} with its defaults, torch.amp.GradScaler(): it begins with 65,536 and halves that until "
        "the gradients are finite."
        if slow
        else "Smaller scales did not help, so the gradients hold NaN or infinity by themselves: run it with "
        "`backsight run --nonfinite` to find the operation."
    )
    return Finding(
        "BS113",
        "warning",
        f"No parameter moves: {seen.name} skipped every optimizer step.",
        tuple(evidence),
        fix,
        source=str(seen.step) if seen.step else None,
    )
