"""By which ways a loss reaches what is trained, when one of them is about to end: in NumPy, say."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

import numpy
import torch

from backsight.source import Body, backward_roots
from backsight.source.bindings import Spot, names_read, prefixes
from backsight.source.body import begins, callee, calls_in, dotted
from backsight.source.cut_rules import carriers, reads_form, rule_of
from backsight.source.definitions import flow_of, reaching
from backsight.source.imports import library
from backsight.story.failure import Failure, Level
from backsight.story.holders import structure
from backsight.story.memory import holds_gradient, is_module, is_tensor, maker_of
from backsight.story.sections import results_of
from backsight.tape import parameters_in, tensors_in


def reaches_otherwise(failure: Failure, leaves: Set[int] | None = None) -> bool | None:
    """Whether the loss that the program runs backward on needs a gradient beside the failing expression; None if no
    loss depends on it.

    A summand of the loss stands for itself: of `mse(pred, y) + penalty(pred)` each must reach the model. A factor or a
    target does not, if what it is multiplied by or compared to reaches it: `(logp * advantage).mean()`.

    leaves: the ids of leaves, one of which the gradient is to reach, by any summand.
    """
    for level in failure.users:
        body, statement = level.body, level.statement
        if body is None or statement is None:
            return None
        roots = [(root, place.line) for root, place in backward_roots(body) if place.line > level.line]
        route = _Route(level, body, statement, failure, leaves)
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
    failure: Failure
    leaves: Set[int] | None
    _known: dict[tuple[int, int], bool | None] = field(default_factory=dict)

    def beside(self, expression: str, line: int) -> bool | None:
        """Whether a term of an expression that reads the failing one reads what requires grad, too; None if no term
        reads it."""
        spot, node = flow_of(self.body.node).read_at(self.body, expression, line)
        if spot is None or node is None:
            return None
        way = self._of(node, spot)
        return way if way is None or self.leaves is None else self._carries(_carrying(node, self._failed), spot)

    def _of(self, node: ast.expr, spot: Spot) -> bool | None:
        key = (id(node), spot.order)
        if key not in self._known:
            self._known[key] = None  # while it is looked for: a loop reads what it has written
            found = [each for term in _terms(node) if (each := self._of_term(term, spot)) is not None]
            self._known[key] = any(found) if found else None
        return self._known[key]

    def _of_term(self, term: ast.expr, spot: Spot) -> bool | None:
        if spot.node is self.failing and self._failed is None:
            return False
        inside = spot.node is self.failing and any(each is self._failed for each in ast.walk(term))
        ways, attached, led = [False] if inside else [], False, set[str]()
        carrying = set(_carrying(term, self._failed))
        for name in dict.fromkeys(_names(term, self._failed)):
            definitions, _ = reaching(flow_of(self.body.node), name, spot)
            values = [(value, each.spot) for each in definitions for value in each.values]
            below = [way for value, where in values if (way := self._of(value, where)) is not None]
            ways += below
            led |= {name} if below else set()
            attached |= name in carrying and led.isdisjoint(prefixes(name)) and self._carries([name], spot)
        return (attached or any(ways)) if ways else None

    @property
    def _failed(self) -> ast.expr | None:
        """The call that was refused, or that led to it; None where the column is not known."""
        at = (self.level.line, self.level.column)
        calls = list(calls_in(self.failing))
        here = [each for each in calls if begins(each) == at]
        return min(here, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0), default=None)

    def _carries(self, names: Iterable[str], spot: Spot) -> bool:
        """Whether one of these variables, or what it is computed from, requires grad."""
        found = [(name, spot) for name in dict.fromkeys(names)]
        for each, where in found:  # grows as we go
            if any(isinstance(self.level.value(part), _PLAIN) for part in prefixes(each)):
                continue  # whatever it was computed from, `n = len(points)`
            definitions, _ = reaching(flow_of(self.body.node), each, where)
            values = [(value, one.spot) for one in definitions for value in one.values]
            is_to_come = any(self._of(value, at) is not None for value, at in values)
            if not is_to_come and self._reaches(self.level.value(each)):
                return True
            read = [(inner, at) for value, at in values for inner in _carrying(value, self._failed)]
            found += [one for one in dict.fromkeys(read) if one not in found]
        return False

    def _reaches(self, value: object) -> bool:
        if self.leaves is None:
            return holds_gradient(value)
        if is_module(value):  # the one that fails is no other way
            running = any(each.variables.get("self") is value for each in self.failure.levels)
            return not running and any(id(each) in self.leaves for each in parameters_in(value))
        return any(not self.leaves.isdisjoint(leaves_of(each)) for each in tensors_in(value) if is_tensor(each))


def leaves_of(tensor: torch.Tensor) -> set[int]:
    """The ids of the leaves that a tensor is computed from; its own, if it is one."""
    if maker_of(tensor) is None:
        return {id(tensor)}
    return {id(leaf.tensor()) for leaf in structure(tensor).leaves}


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
        yield from names_read(node)


def _carrying(node: ast.expr, without: ast.expr | None) -> Iterator[str]:
    """Those of these names that a gradient may go to: not `h` of `len(h)`, `h.argmax()` and `np.mean(h)`."""
    stack = [node]
    while stack:
        each = stack.pop()
        rule = rule_of(each)
        arrays = isinstance(each, ast.Call) and library(each.func) == "numpy"
        if each is without or arrays or reads_form(each) or (rule is not None and rule.always):
            continue
        if (name := dotted(each)) is not None:
            yield from prefixes(name)
        else:
            stack += [child for child, _ in carriers(each)]
