"""Two losses added up: how the sum is written, where it goes, and what both of them train."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from itertools import takewhile

from backsight.diagnosis.wording import listed
from backsight.source import Place, parsed
from backsight.source.bindings import bound, uses
from backsight.source.body import blocks, callee, calls_in, statements
from backsight.source.edits import Where, move, remove, write
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.holders import below
from backsight.story.stepping import steps_in


@dataclass(frozen=True)
class Added:
    """The backward of a sum: `call` is `(first + second).backward()`, and `how` tells where to write it and what goes
    and moves for it, with `edits`; the call alone where the two backwards do not stand side by side."""

    call: str
    how: str
    edits: str = ""


def added(level: Level, place: Place, other: str, loss: str) -> Added:
    """Write the sum of two losses for the backwards at `place` and at the level's own line.

    It takes the place of the first backward if both losses are there by then. Gradients that are zeroed between the two
    would be those of the sum, so that moves above it. Else it takes the place of the second, below which go the steps
    in between: they change weights that the graph has saved. A step, or a zeroing, that stands around them as well
    would be a second one: it goes.
    """
    call = f"({other} + {loss}).backward()"
    (first, sooner), (second, later) = sorted(((place, other), (level.place, loss)), key=lambda each: each[0].position)
    before, between, after = _around(level, first, second) or ([], None, [])
    if between is None or (first.text, second.text) != (f"{sooner}.backward()", f"{later}.backward()"):
        return Added(call, call)
    made = {name for each in between for inner in _within(each) for name in bound(inner)}
    steps = {each.place.position for each in steps_in(level)}
    twice = [
        *(each for each in between if _is_in(each, after) and (each.lineno, each.col_offset) in steps),
        *(each for each in between if _is_in(each, before) and _zeroes(each)),
    ]
    where: Where
    if not made & _names(later):
        at, gone, where = first, second, "above"
        moving = [each for each in between if any(map(_zeroes, _within(each)))]
    else:
        at, gone, where = second, first, "below"
        moving = [each for each in between if any((inner.lineno, inner.col_offset) in steps for inner in _within(each))]
    lost = at is second and made & _names(sooner)
    moving = [each for each in moving if each not in twice]
    if level.body is None or lost or any(len(_within(each)) > 1 for each in moving):
        return Added(call, call)
    removed = sorted([gone, *map(level.body.place, twice)], key=lambda each: each.line)
    edits = [f"on line {at.line}, write `{call}`", *(f"remove line {each.line}, `{each.text}`" for each in removed)]
    moved = [*map(level.body.place, moving)]
    edits += [f"move line {each.line}, `{each.text}`, {where} line {at.line}" for each in moved]
    marks = f"{write(at, call)}{remove(removed)}{''.join(str(move(each, where, at)) for each in moved)}"
    return Added(call, f"{', '.join(edits[:-1])}, and {edits[-1]}{marks}", marks)


_Block = list[ast.stmt]


def _around(level: Level, first: Place, second: Place) -> tuple[_Block, _Block, _Block] | None:
    """The statements before, between and after two places of one block; None if these do not stand in one, each on
    lines of its own."""
    body = level.body
    for block in (
        [body.node.body, *(inner for each in statements(body.node) for _, inner in blocks(each))] if body else ()
    ):
        begins = [(each.lineno, each.col_offset) for each in block]
        if first.position in begins and second.position in begins and first.line < second.line:
            start, end = begins.index(first.position), begins.index(second.position)
            return block[:start], block[start + 1 : end], block[end + 1 :]
    return None


def _is_in(statement: ast.stmt, block: _Block) -> bool:
    """Whether a block has the same statement, which is an expression: a call."""
    return isinstance(statement, ast.Expr) and any(ast.dump(each) == ast.dump(statement) for each in block)


def _within(statement: ast.stmt) -> list[ast.stmt]:
    """A statement and those of its blocks."""
    return [each for each in ast.walk(statement) if isinstance(each, ast.stmt)]


def _names(expression: str) -> set[str]:
    return {use.name for use in uses(parsed(expression))}


def _zeroes(statement: ast.stmt) -> bool:
    return any(callee(call)[1] == "zero_grad" for call in calls_in(statement))


def shared_part(case: Case, results: Collection[tuple[int, int]]) -> str:
    """Return the modules behind some results of the graph, `net.trunk`; empty where none is known."""
    joints = [i for i, key in enumerate(case.graph.identities) if key in results]
    every = (case.graph.nodes[i] for i in below(case.graph, joints))
    paths = dict.fromkeys(each.module for each in every if each.kind == "op" and each.module)
    parts = [path.split(".") for path in reversed(paths) if not path.startswith("(")]
    common = [*takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))]
    found = dict.fromkeys(".".join(each[: len(common) or 1]) for each in parts)
    models = list(case.survey.models)
    return listed([f"{models[0]}.{each}" if len(models) == 1 else each for each in found])
