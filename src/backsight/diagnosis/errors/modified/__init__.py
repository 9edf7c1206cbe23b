"""BS202: a tensor that an operation had saved for its backward was changed in place.

The operation that failed still has its saved tensors, so the tensor, who saved it and its versions are exact. Who
changed it is read, in this order, from the optimizer that holds it, from the statements of the functions on the way to
the loss, and from modules made with `inplace=True`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from backsight.diagnosis.errors.modified.case import Case, Said, at_engine, modified, said_by
from backsight.diagnosis.errors.modified.modules import changed_by_module
from backsight.diagnosis.errors.modified.spelling import spoken, why_saved
from backsight.diagnosis.errors.modified.statements import changed_by_statement
from backsight.diagnosis.errors.modified.steps import changed_by_step
from backsight.diagnosis.errors.modified.watched import as_watched
from backsight.diagnosis.errors.registry import explains
from backsight.diagnosis.evidence.failure import Failure
from backsight.diagnosis.evidence.memory import needs_gradient
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shaped, shown
from backsight.snapshot import survey

CODE = "BS202"
Clue = Callable[[Case], Finding | None]

CLUES: tuple[Clue, ...] = (changed_by_step, changed_by_statement, changed_by_module)

_FIX = (
    "Make a new tensor instead of changing the old one: x = x + 1, not x += 1; or change a copy, x = x.clone() first. "
    "If an optimizer changed it, compute the loss after its step()."
)


@explains(CODE, r"modified by an inplace operation")
def modified_in_place(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor, who saved it, and the statement, step or module that changed it."""
    failure = at_engine(failure)
    said = said_by(failure.message)
    if not any(needs_gradient(root) for root in failure.roots):
        return _by_message(failure, said)
    surveyed = survey(failure.roots, frames=failure.frames)
    found = modified(surveyed, said)
    if found is None:
        return _by_message(failure, said)
    case = Case(failure, surveyed, *found)
    read = next((finding for clue in CLUES if (finding := clue(case)) is not None), None)
    return as_watched(case, read) or read or _unlocated(case)


def _unlocated(case: Case) -> Finding:
    """Tensor and operation are known, but not what changed it."""
    name = case.holder or f"{case.description[0].upper()}{case.description[1:]}"
    where = f" in {case.module}" if case.module else ""
    field = "its result" if case.is_result else f"`{case.saved.name}`"
    lines = [f"{case.node.name}{where} saved it as {field}: {why_saved(case.operation, case.is_result)}."]
    if case.failure.user:
        lines.append(shown(case.failure.user.place, f"needs the original value; {case.since}."))
    lines.append("Which statement changed it could not be found out after the fact.")
    return Finding(
        CODE,
        "error",
        f"{name} was changed in place after {spoken(case.operation)} had saved it for backward.",
        tuple(lines),
        _FIX,
        source=case.failure.source,
        exact=False,
    )


def _by_message(failure: Failure, said: Said | None) -> Finding:
    """Only the text of the error is at hand."""
    what = f"A tensor of shape {shaped(said.shape)}" if said and said.shape is not None else "A tensor"
    lines = [shown(failure.user.place, "is the call that failed.")] if failure.user else []
    if said:
        lines.append(f"It was saved at version {said.expected} and is at version {said.version} now.")
    if said and said.writer:
        lines.append(f"{said.writer} made it, or changed it last.")
    return Finding(
        CODE,
        "error",
        f"{what} that backward needs was changed in place after the forward pass had saved it.",
        tuple(lines),
        _FIX,
        source=failure.source,
        exact=False,
    )
