"""Whose gradients a loop zeroes in each turn, though they are used only after it: read from the text."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple

from backsight.source import Body, Place
from backsight.source.bindings import bound, prefixes
from backsight.source.body import LOOPS, body_around, callee, calls_in, dotted, statements
from backsight.source.imports import library


class Turns(NamedTuple):
    """An optimizer, its zero_grad() in a loop, its step after that, and the loop."""

    optimizer: str
    zeroing: Place
    step: Place
    loop: Place


def zeroed_in_turns(body: Body, line: int, optimizers: Iterable[str]) -> Turns | None:
    """Return the first of some optimizers that is zeroed in the loop around a backward, and steps after that loop.

    Who reads gradients, or has them handed to a hook, may have used them in each turn: then nothing is said.
    """
    loops = [s for s in statements(body.node) if isinstance(s, LOOPS) and covers(s, line)]
    if not loops or uses_gradients(body.file):
        return None
    loop = max(loops, key=lambda each: each.lineno)
    end = loop.end_lineno or 0
    every = [(s, callee(call)) for s in statements(body.node) for call in calls_in(s)]
    conditions = [s for s in statements(body.node) if isinstance(s, ast.If | ast.Try) and loop.lineno < s.lineno]
    calls = [(s, dotted(receiver) or "", method) for s, (receiver, method) in every]
    last = {name.split(".")[-1]: name for name in optimizers}
    for receiver in dict.fromkeys(each for _, each, method in calls if method == "zero_grad"):
        own = [(s, method) for s, each, method in calls if each == receiver]
        inside = [(s, method) for s, method in own if covers(loop, s.lineno)]
        step, first = next(((s, method) for s, method in own if s.lineno > end), (None, ""))
        if step is None or first != "step" or any(method != "zero_grad" for _, method in inside):
            continue
        if receiver.split(".")[-1] not in last or is_bound(body, receiver, loop.lineno, step.lineno):
            continue
        zeroing = [s for s, _ in inside if s.lineno < line and not any(covers(c, s.lineno) for c in conditions)]
        if zeroing and not any(end < s.lineno < step.lineno and m.endswith("backward") for s, _, m in calls):
            return Turns(last[receiver.split(".")[-1]], body.place(zeroing[0]), body.place(step), body.place(loop))
    return None


def covers(statement: ast.stmt, line: int) -> bool:
    """Whether a line is inside a statement, below its first line."""
    return statement.lineno < line <= (statement.end_lineno or 0)


def is_bound(body: Body, name: str, first: int, last: int) -> bool:
    """Whether a statement of some lines binds a name, or what it begins with: then it is another one in each turn."""
    names = {each for s in statements(body.node) if first <= s.lineno <= last for each in bound(s)}
    return any(each in names for each in prefixes(name))


def uses_gradients(file: str) -> bool:
    """Whether the text of a file reads gradients, or registers a hook that may be given them."""
    module = body_around(file, 0)
    attributes = [each for each in ast.walk(module.node) if isinstance(each, ast.Attribute)] if module else []
    return any(
        (each.attr == "grad" and not library(each))
        or (each.attr.startswith("register_") and each.attr.endswith("hook"))
        for each in attributes
    )
