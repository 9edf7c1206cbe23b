"""Deep copies that are made anew in each step, from what an optimizer holds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple

import torch

from backsight.diagnosis.program import statements_around
from backsight.naming import search
from backsight.source import Body, Place, only
from backsight.source.bindings import assigned, parameters_of, targets
from backsight.source.body import LOOPS, callee, calls_in, dotted, statements


class Copy(NamedTuple):
    """A statement `copy = copy.deepcopy(original)`, both names, and the statement that updates it through `.data`."""

    place: Place
    original: str
    variable: str
    update: Place | None


def copied_anew(
    frame: FrameType | None,
    held: Sequence[torch.Tensor],
    others: Sequence[str],
    optimizer: str,
    *,
    nameless: bool = False,
) -> Copy | None:
    """Return the statement that makes a copy, if it runs once for each step.

    held: parameters of the original. others: what the parameters of the copy are called. optimizer: what holds the
    original. nameless: whether the copy is gone by the backward, with its name. Such a statement stands in a loop, or
    in a function that leaves nothing of it behind.
    """
    if not others and not nameless:
        return None
    parts = {part for names in search(held[:1], limit=4).names for name in names for part in name.path.split(".")}
    owners = {name.split(".")[0] for name in others}
    found = []
    for body, statement in statements_around(frame):
        for pair in assigned(statement):
            match pair:
                case ast.Name(id=variable), ast.Call(args=[given]) as call if callee(call)[1] == "deepcopy":
                    original = dotted(given)
                case _:
                    continue
            if original is None or not (nameless or variable in owners):
                continue
            is_it = original.split(".")[-1] in parts or (nameless and _is_given(body, original))
            if not is_it or not _runs_often(body, statement, optimizer.split(".")[-1]):
                continue
            copy = Copy(body.place(statement), original, variable, _updated(body, statement))
            if variable in owners:
                return copy
            if copy.update is not None or _is_called(body, variable):
                found.append(copy)
    return only(found)


def _is_called(body: Body, name: str) -> bool:
    """Whether a function computes something with a copy, as it does not with one that it only keeps."""
    return any(dotted(call.func) == name for each in statements(body.node) for call in calls_in(each))


def _is_given(body: Body, name: str) -> bool:
    """Whether a name is a parameter of a function, which its caller may call otherwise."""
    return not isinstance(body.node, ast.Module) and name in parameters_of(body.node)


def _updated(body: Body, copy: ast.stmt) -> Place | None:
    """Return the statement below that of a copy that writes something through `.data`."""
    for statement in statements(body.node):
        if statement.lineno <= copy.lineno:
            continue
        goals = (target for target, _, _ in targets(statement))
        written = [callee(call)[0] for call in calls_in(statement) if callee(call)[1].endswith("_")]
        if any(isinstance(each, ast.Attribute) and each.attr == "data" for each in (*goals, *written)):
            return body.place(statement)
    return None


def _runs_often(body: Body, statement: ast.stmt, optimizer: str) -> bool:
    every = list(statements(body.node))
    if any(isinstance(s, LOOPS) and s.lineno < statement.lineno <= (s.end_lineno or 0) for s in every):
        return True
    if not isinstance(body.node, ast.FunctionDef) or body.node.name == "__init__":
        return False
    # who runs the training within the same function copies once; the steps of a copy's own optimizer are another's
    steps = [n for s in every for n in ast.walk(s) if isinstance(n, ast.Call) and callee(n)[1] == "step"]
    inner = {dotted(target) for s in every for target, value in assigned(s) if isinstance(value, ast.Call)}
    return all((called := dotted(callee(n)[0])) in inner and (called or "").split(".")[-1] != optimizer for n in steps)
