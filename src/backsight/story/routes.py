"""By which ways a loss reaches what is trained, when one of them is about to end: in NumPy, say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy

from backsight.source import Body, backward_roots
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Spot, prefixes, uses
from backsight.source.body import callee, calls_in, dotted
from backsight.source.definitions import flow_of, reaching
from backsight.story.failure import Failure, Level
from backsight.story.memory import holds_gradient
from backsight.story.sections import results_of


def reaches_otherwise(failure: Failure) -> bool | None:
    """Whether the loss that the program runs backward on needs a gradient beside the failing expression; None if no
    loss depends on it.

    A summand of the loss stands for itself: of `mse(pred, y) + penalty(pred)` each must reach the model. A factor or a
    target does not, if what it is multiplied by or compared to reaches it: `(logp * advantage).mean()`.
    """
    for level in failure.users:
        body, statement = level.body, level.statement
        if body is None or statement is None:
            return None
        roots = [(root, place.line) for root, place in backward_roots(body) if place.line > level.line]
        route = _Route(level, body, statement)
        found = [each for root, line in roots or results_of(body) if (each := route.beside(root, line)) is not None]
        if any(found):
            return True
        if roots or not found:
            return False if found else None
    return None


@dataclass(eq=False)
class _Route:
    """The way from a root of backward, or from what a function returns, back to the failing expression."""

    level: Level
    body: Body
    failing: ast.stmt
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def beside(self, expression: str, line: int) -> bool | None:
        """Whether a term of an expression that reads the failing one reads what requires grad, too; None if no term
        reads it."""
        spot, node = flow_of(self.body.node).read_at(self.body, expression, line)
        return self._of(node, spot) if spot is not None and node is not None else None

    def _of(self, node: ast.expr, spot: Spot) -> bool | None:
        if (id(node), spot.order) in self._seen:
            return None
        self._seen.add((id(node), spot.order))
        found = [each for term in _terms(node) if (each := self._of_term(term, spot)) is not None]
        return any(found) if found else None

    def _of_term(self, term: ast.expr, spot: Spot) -> bool | None:
        if spot.node is self.failing and self._failed is None:
            return False
        inside = spot.node is self.failing and any(each is self._failed for each in ast.walk(term))
        ways, attached = [False] if inside else [], False
        for name in dict.fromkeys(_names(term, self._failed)):
            definitions, _ = reaching(flow_of(self.body.node), name, spot)
            values = [(value, each.spot) for each in definitions for value in each.values]
            below = [way for value, where in values if (way := self._of(value, where)) is not None]
            ways += below
            attached |= not below and self._carries(name, spot)
        return (attached or any(ways)) if ways else None

    @property
    def _failed(self) -> ast.expr | None:
        """The call that was refused, or that led to it; None where the column is not known."""
        at = (self.level.line, self.level.column)
        calls = list(calls_in(self.failing))
        here = [each for each in calls if (each.lineno, each.col_offset) == at]
        return min(here, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0), default=None)

    def _carries(self, name: str, spot: Spot) -> bool:
        """Whether a variable, or what it is computed from, requires grad."""
        if any(isinstance(self.level.value(each), _PLAIN) for each in prefixes(name)):
            return False  # whatever it was computed from, `n = len(points)`
        every = (name, *ancestors(self.body, name, spot.node.lineno))
        return any(holds_gradient(self.level.value(each)) for each in every)


_PLAIN = (numpy.ndarray, numpy.generic, int, float, complex, str)
"""What has no gradient itself."""


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """The summands of an expression, without constant factors and means."""
    match node:
        case ast.UnaryOp(operand=inner):
            yield from _terms(inner)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from _terms(left)
            yield from _terms(right)
        case ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=inner):
            yield from _terms(inner)
        case ast.BinOp(left=inner, op=ast.Mult() | ast.Div(), right=ast.Constant()):
            yield from _terms(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="mean" | "sum"), args=[]) if callee(node)[0] is not None:
            yield from _terms(inner)
        case _:
            yield node


def _names(node: ast.AST, without: ast.expr | None) -> Iterator[str]:
    """The names that a part of a statement reads outside of one of its expressions."""
    if node is without:
        return
    if without is not None and dotted(node) is None and any(each is without for each in ast.walk(node)):
        for child in ast.iter_child_nodes(node):
            yield from _names(child, without)
    else:
        yield from (use.name for use in uses(node) if not use.binds)
