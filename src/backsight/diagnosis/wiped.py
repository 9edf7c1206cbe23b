"""BS127: the gradients of a backward are zeroed for another one, before any step has used them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.thrown_away import are_read
from backsight.diagnosis.scene import Site
from backsight.diagnosis.wording import listed, shown, warning
from backsight.naming import search
from backsight.source import Body, Place
from backsight.source.body import body_around, callee, calls_in, keyword, statement_at, statements


def wiped(first: Site, second: Site, lost: Sequence[torch.Tensor], since: int) -> Finding | None:
    """Return the finding that what the first of two backwards gave to `lost` was gone before the second began.

    Gradients may be wanted for something else than a step: nothing is said where the program reads them.
    """
    body, other = body_around(*first), body_around(*second)
    if body is None or other is None or body.node is not other.node or are_read(body):
        return None
    statement = statement_at(body, first[1])
    zeroing = _zeroing(body, first[1], second[1])
    if statement is None or zeroing is None or not _is_backward(statement):
        return None
    names = [found[0].path if found else "a parameter" for found in search(lost[:2], limit=1).names]
    few = listed([*names, *[""] * len(lost[2:])], 2)
    here = body.place(statement)
    return warning(
        "BS127",
        f"The gradients of `{here.text}` are zeroed before any step uses them.",
        (
            shown(here, f"computes the gradients of {few}."),
            shown(zeroing, "throws them away, before the next backward."),
        ),
        f"Remove `{zeroing.text}` there: zero the gradients once for each step, before the first backward.",
        zeroing,
        since=since,
    )


def _is_backward(statement: ast.stmt) -> bool:
    """Whether a statement calls backward for all leaves."""
    return any(callee(c)[1] == "backward" and keyword(c, "inputs") is None for c in calls_in(statement))


def _zeroing(body: Body, after: int, before: int) -> Place | None:
    """Return the one zero_grad() between two lines that have no step between them."""
    calls = [
        (each, callee(call)[1])
        for each in statements(body.node)
        if after < each.lineno < before
        for call in calls_in(each)
    ]
    if any(name == "step" for _, name in calls):
        return None
    return next((body.place(each) for each, name in calls if name == "zero_grad"), None)
