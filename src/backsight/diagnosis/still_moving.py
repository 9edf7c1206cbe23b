"""BS172: what is frozen, or has its gradient zeroed, still moves."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NamedTuple

import torch

from backsight.diagnosis.amending import added, given_keyword, rid_of_keyword
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.modes import freezing
from backsight.diagnosis.program import (
    calls_around,
    constructions,
    few_of,
    looped,
    named,
    program_frames,
    statements_around,
)
from backsight.diagnosis.wording import counted, if_known, shown, warning
from backsight.naming.frames import locals_of
from backsight.snapshot import groups
from backsight.source import Place, assignments, only, read_at
from backsight.source.bindings import assigned
from backsight.source.body import callee, calls_in, dotted, is_constant, keyword
from backsight.source.edits import OR
from backsight.tracing.steps import parameters


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


# Rows whose gradient the program sets to zero, which weight decay shrinks all the same.


class Zeroing(NamedTuple):
    """A statement that writes zeros into a part of a gradient: what it calls the parameter, and the part."""

    path: str
    place: Place
    part: ast.expr

    def rows(self, frame: FrameType, count: int) -> torch.Tensor | None:
        """Return which rows these are: a variable says so, which is a mask or has their numbers, or a number."""
        part = self.part.elts[0] if isinstance(self.part, ast.Tuple) and self.part.elts else self.part
        index: object = part.value if isinstance(part, ast.Constant) else None
        if isinstance(part, ast.Name):
            held = (locals_of(each) for each in program_frames(frame))
            index = next((each[part.id] for each in held if part.id in each), None)
        is_mask = type(index) is torch.Tensor and index.dim() == 1 and not index.is_floating_point()
        if not (type(index) is int or is_mask):
            return None
        rows = torch.zeros(count, dtype=torch.bool, device=index.device if isinstance(index, torch.Tensor) else None)
        with suppress(IndexError):
            rows[index] = True  # type: ignore[index]  # one of both
        return rows


def zeroing(frame: FrameType) -> list[Zeroing]:
    """Return the only statement that writes zeros into a part of a gradient.

    >>> grads = net.table.weight.grad
    >>> grads[rest] = 0.0           # or: net.table.weight.grad.data[rest] = 0.0
    """
    found = []
    for body, statement in statements_around(frame):
        for target, value in assigned(statement):
            is_zeros = isinstance(value, ast.Constant) and value.value == 0
            if not is_zeros or not isinstance(target, ast.Subscript):
                continue
            path = (dotted(target.value) or "").removesuffix(".data")
            if path.isidentifier():
                made = only(assignments(body, path))
                values = [v for t, v in assigned(read_at(made)[1]) if dotted(t) == path]
                path = (dotted(values[0]) if len(values) == 1 else None) or ""
            if path.endswith(".grad"):
                found.append(Zeroing(path.removesuffix(".grad"), body.place(statement), target.slice))
    return found if len(found) == 1 else []


def rows_moving(
    name: str, place: Place, optimizer: torch.optim.Optimizer, rows: int, since: int, frame: FrameType
) -> Finding:
    """Return the finding that rows of a parameter move though the program zeroes their gradients."""
    called = named(optimizer, "the optimizer")
    made = only(constructions(frame, optimizer, called))
    alone = sum(p.requires_grad for p in parameters(optimizer)) == 1
    edit = given_keyword(made, type(optimizer).__name__, "weight_decay", "0.0") if alone else ""
    return warning(
        "BS172",
        f"Weight decay of {called} still moves {counted(rows, 'row')} of {name} whose gradient is set to zero.",
        (
            shown(place, "zeroes a part of the gradient; weight decay needs no gradient."),
            if_known(made, f"creates {called}, with a weight decay."),
        ),
        f"To keep these rows, create {called} with weight_decay=0.0{edit}."
        if alone
        else f"To keep these rows, give {name} a group of its own in {called}, with weight_decay=0.0.",
        place,
        since=since,
    )
