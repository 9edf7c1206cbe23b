"""BS172: a frozen parameter still moves, as its gradient is zeros and not None."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FrameType

import torch

from backsight.diagnosis.amending import added, rid_of_keyword
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.modes import freezing
from backsight.diagnosis.program import calls_around, few_of, looped, named
from backsight.diagnosis.wording import if_known, warning
from backsight.snapshot import groups
from backsight.source import Place, only
from backsight.source.body import callee, calls_in, is_constant, keyword
from backsight.source.edits import OR


def still_moving(
    moved: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer, since: int, frame: FrameType
) -> Finding:
    """Return the finding that an optimizer has moved parameters that are frozen, and have a gradient of zeros."""
    name, one = named(optimizer, "the optimizer"), len(moved) == 1
    decays = any(group.get("weight_decay") for group in groups(optimizer))
    by = "momentum or weight decay moves" if decays else "momentum moves"
    says = f"{name} skips only what has none, and {by} {'it' if one else 'them'} on."
    frozen = only((body, s) for body, s, _ in freezing(frame))
    place = frozen[0].place(frozen[1]) if frozen is not None else None
    keeping = [
        body.place(statement)
        for body, statement, call in calls_around(frame)
        if callee(call)[1] == "zero_grad" and is_constant(keyword(call, "set_to_none"), False)
    ]
    none = _none(place, frozen[1], looped(frozen[0])) if frozen is not None else ""
    drop = rid_of_keyword(keeping[0], "set_to_none", "zero_grad") if len(keeping) == 1 else ""
    return warning(
        "BS172",
        f"{few_of(moved)} {'is' if one else 'are'} frozen, but {name} still moves {'it' if one else 'them'}.",
        (
            f"{'Its gradient is' if one else 'Their gradients are'} still there, as zeros: {says}",
            if_known(place, "sets requires_grad and leaves the gradients."),
        ),
        f"Set the gradient to None when you freeze: {none or 'p.grad = None'}"
        f"{added(none, 'below', place) if none else ''}."
        + (f" {OR}Or leave out set_to_none=False on line {keeping[0].line}{drop}." if drop else ""),
        place,
        since=since,
    )


def _none(place: Place | None, statement: ast.stmt, variables: set[str]) -> str:
    """Take the gradients away from what a statement freezes: a parameter that a loop goes through, or a module."""
    calls = [callee(call)[0] for call in calls_in(statement) if callee(call)[1] == "requires_grad_"]
    goals = [t.value for t in getattr(statement, "targets", ()) if isinstance(t, ast.Attribute)]
    frozen = only(each for each in (*calls, *goals) if each is not None)
    if frozen is None or place is None:
        return ""
    what = ast.unparse(frozen)
    return f"{what}.grad = None" if what in variables else f"for p in {what}.parameters(): p.grad = None"
