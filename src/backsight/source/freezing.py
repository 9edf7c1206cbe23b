"""Which statements turn requires_grad off, and by which words in the names of parameters they choose."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backsight.source.bindings import Spot, spots
from backsight.source.body import LOOPS, Body, Place, callee, dotted, expressions, functions, is_constant


@dataclass(frozen=True, eq=False)
class Freezing:
    """A statement that may turn requires_grad off.

    chosen: the conditions on which it depends; where a value is assigned, that too.
    at: the nearest of these conditions, else the statement.
    """

    place: Place
    at: Place
    chosen: tuple[ast.expr, ...]

    def words(self, known: Mapping[str, object]) -> tuple[tuple[str, ...], bool]:
        """The texts that the conditions look for in a name, and whether a name must begin with them; `known` tells what
        constants of the file stand for."""
        found: dict[str, None] = {}
        begins = False
        for node in (each for condition in self.chosen for each in ast.walk(condition)):
            value = node.value if isinstance(node, ast.Constant) else known.get(dotted(node) or "")
            every: Any = value if type(value) in (list, tuple, set, frozenset) else (value,)
            found |= dict.fromkeys(each for each in every if type(each) is str)
            begins |= isinstance(node, ast.Call) and callee(node)[1] == "startswith"
        return tuple(found), begins


def freezings(file: str) -> Iterator[Freezing]:
    """Every such statement of a file."""
    for body in functions(file):
        every = spots(body.node)
        for spot in every:
            value = _turned_to(spot.node)
            if value is not None:
                yield _freezing(body, every, spot, value)


def _turned_to(statement: ast.stmt) -> ast.expr | None:
    """What requires_grad is set to, if that may be False."""
    value: ast.expr | None = None
    if isinstance(statement, ast.Assign):
        sets = any(isinstance(each, ast.Attribute) and each.attr == "requires_grad" for each in statement.targets)
        value = statement.value if sets else None
    for node in expressions(statement):
        if isinstance(node, ast.Call) and callee(node)[1] == "requires_grad_" and node.args:
            value = node.args[0]
    return None if is_constant(value, True) else value


def _freezing(body: Body, every: list[Spot], spot: Spot, value: ast.expr) -> Freezing:
    around = [arm for arm, _ in spot.arms if isinstance(arm, ast.If)]
    loop = next((arm for arm, _ in reversed(spot.arms) if isinstance(arm, LOOPS)), None)
    guards = [each for each in loop.body if isinstance(each, ast.If)] if loop else []
    passing = [each for each in guards if any(isinstance(inner, ast.Continue) for inner in each.body)]
    conditions = [*around, *(each for each in passing if each not in around)]
    chosen = [each.test for each in conditions] + ([] if isinstance(value, ast.Constant) else [value])
    return Freezing(body.place(spot.node), body.place(conditions[-1] if conditions else spot.node), tuple(chosen))
