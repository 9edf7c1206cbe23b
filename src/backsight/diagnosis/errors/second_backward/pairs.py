"""Two losses over one forward pass: weights that change between their backwards, and the sum of both."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, parsed
from backsight.source.bindings import bound, spots, uses
from backsight.source.body import blocks_of, body_around, callee, calls_in, expressions, is_compound, statements
from backsight.source.changes import changed_names
from backsight.source.edits import Where, move, remove, write
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.holders import below
from backsight.story.sections import function_called, run_by
from backsight.story.stepping import steps_in
from backsight.tape import Leaf
from backsight.tracing import Change

_KINDS = ("in place", "out", "data", "optimizer")


@dataclass(frozen=True, eq=False)
class Moved:
    """What changed weights between two statements of a function.

    place: the statement of that function.
    below: that statement, or the block around it that has ended by the failing line.
    inner: the one that it ran, where that stands in another function.
    weights: the names of those that it changed.
    by_step: whether an optimizer did it.
    """

    place: Place
    below: Place
    inner: Place | None
    weights: Sequence[str]
    by_step: bool

    def told(self, through: str) -> Fact:
        """The statement, as evidence."""
        by = f" in {self.inner}, {self.inner.text}" if self.inner else ""
        old = (
            f"the graph behind {through} is that of the old weights" if through else "the graph is that of the old ones"
        )
        return shown(self.place, f"changes {listed(self.weights, 2)}{by}: {old}.")


def moved(case: Case, level: Level, first: Place, shared: Collection[int]) -> Moved | None:
    """Find what has changed the weights behind the shared operations between `first` and the failing line.

    An optimizer's step counts only if it trains all of them.
    """
    if level.body is None or first.position > level.place.position:
        return None
    columns = case.graph.columns
    consumed = {j for i in shared for j in columns.inputs[columns.start[i] : columns.start[i + 1]].tolist()}
    leaves = [leaf for leaf in case.graph.leaves if leaf.node in consumed]
    return _seen(case, level, first, shared, leaves) or _stepped(level, first, leaves)


def _seen(case: Case, level: Level, first: Place, shared: Collection[int], leaves: Sequence[Leaf]) -> Moved | None:
    made = max((case.graph.nodes[i].sequence or 0 for i in shared), default=0)
    found: list[tuple[Leaf, Change]] = []
    for leaf in leaves:
        every = case.watch.changes(leaf.storage) if case.watch and leaf.storage is not None else ()
        found += [(leaf, each) for each in every if each.kind in _KINDS and each.line is not None and each.mark > made][
            :1
        ]
    by_step = all(change.kind == "optimizer" for _, change in found)
    if not found or (by_step and len(found) < len(leaves)):
        return None
    line = next(change.line for _, change in found if by_step or change.kind != "optimizer")
    around = body_around(line.file, line.line) if line else None
    place = _statement(level, first, around, line.line) if line and around else None
    if line is None or place is None:
        return None
    inner = None if place.file == line.file and place.line <= line.line <= (place.end or place.line) else line.place
    return Moved(place, _ended(level, place), inner, [leaf.label for leaf, _ in found], by_step)


def _stepped(level: Level, first: Place, leaves: Sequence[Leaf]) -> Moved | None:
    """What the text shows: a step of an optimizer that holds all of them."""
    tensors = {id(leaf.tensor()) for leaf in leaves}
    for step in steps_in(level):
        between = first.position < step.place.position < level.place.position
        if between and tensors and tensors <= step.trained:
            return Moved(step.place, _ended(level, step.place), None, [leaf.label for leaf in leaves], by_step=True)
    return None


def _ended(level: Level, place: Place) -> Place:
    """The outermost block around a statement that does not go on to the failing line; the statement itself if none."""
    for spot in spots(level.body):
        if (spot.node.lineno, spot.node.col_offset) == place.position:
            around = (block for block, _ in spot.arms if (block.end_lineno or 0) < level.place.line)
            block = next(around, None)
            return Place(place.file, block.lineno, "", end=block.end_lineno or 0) if block else place
    return place


def _statement(level: Level, first: Place, around: Body, line: int) -> Place | None:
    """The statement between `first` and the failing line that is the one at `line`, or runs the function around it."""
    for statement, place in _between(level, first):
        if level.body is not None and around.node is level.body.node:
            if place.line <= line <= (place.end or place.line):
                return place
        elif any(each.node is around.node for each in _run_by(level, statement)):
            return place
    return None


def perhaps_moved(level: Level, first: Place) -> Place | None:
    """The first statement between `first` and the failing line that is there for its effect, and runs a function of the
    user's that works in place, as its text shows: what it changes is not known."""
    for statement, place in _between(level, first):
        if isinstance(statement, ast.Expr) and any(map(_works_in_place, _run_by(level, statement))):
            return place
    return None


def _between(level: Level, first: Place) -> Iterator[tuple[ast.stmt, Place]]:
    for each in statements(level.body):
        place = level.body.place(each) if level.body else first
        if first.position < place.position < level.place.position and not is_compound(each):
            yield each, place


def _run_by(level: Level, statement: ast.stmt) -> Iterator[Body]:
    """The functions of the user's that a statement may run."""
    for call in expressions(statement):
        if isinstance(call, ast.Call):
            yield from (each.body for each in run_by(*function_called(level, call)))


def _works_in_place(body: Body) -> bool:
    """Whether a function changes a tensor in place, by the text: not a gradient, nor a number that it adds to."""
    simple = (each for each in statements(body.node) if isinstance(each, ast.Expr))
    return any(not name.endswith(".grad") for each in simple for name in changed_names(each))


# Two losses added up: how the sum is written, where it goes, and what both of them train.


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
    for block in blocks_of(level.body):
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
