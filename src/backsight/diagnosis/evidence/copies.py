"""Deep copies that are made anew in each step, from what an optimizer holds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FrameType

import torch

from backsight.diagnosis.program import bodies
from backsight.naming import search
from backsight.source import Body, Place
from backsight.source.body import LOOPS, callee, dotted, statements


def copied_anew(
    frame: FrameType | None, held: Sequence[torch.Tensor], others: Sequence[str], optimizer: str
) -> tuple[Place, str, str] | None:
    """Return the statement `copy = copy.deepcopy(original)`, and both names, if it runs once for each step.

    held: parameters of the original. others: what the parameters of the copy are called. optimizer: what holds the
    original. Such a statement stands in a
    loop, or in a function that leaves nothing of it behind.
    """
    if not others:
        return None
    parts = {part for names in search(held[:1], limit=4).names for name in names for part in name.path.split(".")}
    owners = {name.split(".")[0] for name in others}
    for body in bodies(frame):
        for statement in statements(body.node):
            match statement:
                case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call(args=[given]) as call):
                    original = dotted(given)
                    if callee(call)[1] != "deepcopy" or original is None or variable not in owners:
                        continue
                    if original.split(".")[-1] in parts and _runs_often(body, statement, optimizer.split(".")[-1]):
                        return body.place(statement), original, variable
    return None


def _runs_often(body: Body, statement: ast.stmt, optimizer: str) -> bool:
    every = list(statements(body.node))
    if any(isinstance(s, LOOPS) and s.lineno < statement.lineno <= (s.end_lineno or 0) for s in every):
        return True
    if not isinstance(body.node, ast.FunctionDef) or body.node.name == "__init__":
        return False
    # who runs the training within the same function copies once; the steps of a copy's own optimizer are another's
    steps = [n for s in every for n in ast.walk(s) if isinstance(n, ast.Call) and callee(n)[1] == "step"]
    inner = {dotted(t) for s in every if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) for t in s.targets}
    return all((called := dotted(callee(n)[0])) in inner and (called or "").split(".")[-1] != optimizer for n in steps)
