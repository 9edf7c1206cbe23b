"""The terms of a sum that were not reduced, where the others were: `x.pow(2).sum() + y.pow(2)`."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.naming.plain import namespace
from backsight.snapshot import survey
from backsight.source import Body, Place, statement_at
from backsight.source.body import callee, dotted, given_to, keyword
from backsight.source.definitions import values_of
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.holders import given
from backsight.story.sections import Section, sections
from backsight.tape import Graph, Node
from backsight.text import listed

_REDUCING = ("sum", "mean", "norm", "prod", "max", "min", "median")
_SCALED = ("Mul", "Div")


@dataclass(frozen=True)
class OpenTerms:
    """The statement that has such terms, the terms, and how they are reduced as the others are."""

    place: Place
    terms: tuple[str, ...]
    fix: str


def open_terms(failure: Failure, root: torch.Tensor) -> OpenTerms | None:
    """Return the terms that leave several numbers in a sum: the graph counts them, and the text shows which they are.

    They are summed where another term is the sum of as many rows; the gradient of a mean does not grow with them.
    """
    graph = survey((root,), frames=failure.frames).graph
    parts = [*_parts(graph)]
    many = sum(_size(each) > 1 for each in parts)
    sums = (each for each in parts if each.op == "Sum" and _size(each) == 1)
    summed = any(at.shape and at.shape[:1] == root.shape[:1] for each in sums for at in given(each))
    for section in sections(failure) if 0 < many < len(parts) else ():
        for goal, line in section.goals:
            statement = statement_at(section.body, line)
            whole = next((n for n in ast.walk(statement or ast.Pass()) if _is(section.body, n, goal)), None)
            terms = [*_terms(section, whole)] if isinstance(whole, ast.expr) else []
            found = [each for each in terms if not _is_reduced(section, each)]
            if len(found) == many and len(terms) > many:
                return _told(section.body, found, "sum" if summed else "mean")
    return None


def _is(body: Body, node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.expr) and body.text(node) == text


def _parts(graph: Graph) -> Iterator[Node]:
    """The terms of the sum that a graph ends in."""
    queue = list(graph.roots)
    for node in queue:  # grows as we go
        inputs = given(node)
        scaled = node.op == "Neg" or (node.op in _SCALED and len(inputs) == 1)
        if _size(node) > 1 and (node.op in ("Add", "Sub") or scaled):
            queue += inputs
        else:
            yield _unscaled(node)


def _unscaled(node: Node) -> Node:
    """A term without its sign and the numbers that it is multiplied by."""
    while node.op in ("Neg", *_SCALED) and len(given(node)) == 1:
        (node,) = given(node)
    return node


def _size(node: Node) -> int:
    return math.prod(node.shape or ())


def _terms(section: Section, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """The terms of a sum, without numbers that they are multiplied by; a name stands for what it was given."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from _terms(section, inner, depth)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from _terms(section, left, depth)
            yield from _terms(section, right, depth)
        case ast.BinOp(left=number, op=ast.Mult(), right=inner) if _is_number(section, number):
            yield from _terms(section, inner, depth)
        case ast.BinOp(left=inner, op=ast.Mult() | ast.Div(), right=number) if _is_number(section, number):
            yield from _terms(section, inner, depth)
        case ast.Name(id=name) if depth < _DEEPEST:
            values = values_of(section.body, name, node.lineno)
            yield from _terms(section, values[0], depth + 1) if len(values) == 1 else (node,)
        case _:
            yield node


_DEEPEST = 8


def _is_number(section: Section, node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant) or type(value_of(section, value)) in (int, float)


def _is_reduced(section: Section, node: ast.expr) -> bool:
    """Whether the text shows that a term is one number."""
    if not isinstance(node, ast.Call) or keyword(node, "reduction") or keyword(node, "reduce"):
        return False
    _, name = callee(node)
    if name in _REDUCING and len(given_to(node)) == 1 and not node.keywords:
        return True
    loss = section.value(dotted(node.func) or "")
    if issubclass(type(loss), torch.nn.Module):
        return (namespace(loss) or {}).get("reduction") in ("sum", "mean")
    return loss is not None and loss is vars(torch.nn.functional).get(name) and "reduction" in _names(loss)


def _names(function: object) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()


def _told(body: Body, found: list[ast.expr], reduction: str) -> OpenTerms | None:
    statements = [statement_at(body, each.lineno, each.col_offset) for each in found]
    first = statements[0]
    if first is None:
        return None
    new = {each: f"{simple(body.text(each))}.{reduction}()" for each in found}
    edits = []
    for statement in dict.fromkeys(each for each in statements if each is not None):
        here = {each: new[each] for each, at in zip(found, statements, strict=True) if at is statement}
        line = rewritten(body, statement, here)
        there = f"write {listed([*here.values()])} there"
        edits.append(f"on line {statement.lineno}, write `{line}`" if line else there)
    return OpenTerms(body.place(first), tuple(body.text(each) for each in found), " and ".join(edits))
