"""BS154: a recurrent state is detached in each iteration, and the loss trains the last iteration alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from backsight.diagnosis.amending import gone, written
from backsight.diagnosis.evidence.cuts import ends
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import counted, if_known, listed, shown, warning
from backsight.source import Body, Place, read_at
from backsight.source.bindings import assigned, bound, target_names, uses
from backsight.source.body import callee, calls_in, dotted, expressions, functions, statements
from backsight.tape import running_backward
from backsight.tracing import Part, Severed, current, repeated


@rule("BS154")
def cut_each_turn(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: the same parameters are cut off again and again, and only what was computed last remains.

    Truncated backpropagation runs a backward, or has a part of the loss, between two cuts.
    """
    watch = current()
    if watch is None or watch.level != "exact" or scene.moment != "during backward":
        return
    numbers = {number for node in scene.graph.nodes if (number := node.sequence) is not None}
    marks = [each.mark for each in watch.backwards if each.thread in each.marks]
    for cut, parts, latest in repeated(watch):
        period = _period(scene, parts, latest)
        if not period or cut.line is None or any(parts[0][1] < mark <= latest for mark in marks):
            continue
        found = detached(cut.line.place)
        if found is None or _is_running(found):
            continue
        # What is detached once it is computed, is so after the last iteration as well: the one before that ends it.
        last = latest - period if found.order == "after" else latest
        # Of the iteration before, what was computed until its cut is as old as what this one began with.
        before = last - period
        if last in numbers and before not in numbers and not any(parts[0][1] <= each < before for each in numbers):
            yield _finding(found, cut, cut.line.place, (latest - parts[0][1]) // period + (found.order != "after"))
            return


def _period(scene: Scene, parts: Sequence[Part], latest: int) -> int:
    """Return how many nodes there are between two cuts of what is trained; 0 where it is not always the same."""
    if any(number < scene.began for _, number in parts):
        return 0
    begun = sorted({number for _, number in parts})
    turns, rest = divmod(latest - begun[0], begun[1] - begun[0]) if len(begun) > 1 else (0, 1)
    trained = scene.reached()
    behind = [
        {id(leaf) for refs, number in parts if number == each for ref in refs if (leaf := ref()) is not None}
        for each in begun[1:]
    ]
    alike = bool(behind) and bool(behind[0]) and all(each == behind[0] for each in behind) and behind[0] <= trained
    return begun[1] - begun[0] if alike and turns > 1 and not rest else 0


def _is_running(found: Detached) -> bool:
    """Whether the backward was called from within the loop."""
    called = running_backward()
    frame = called[1] if called is not None else None
    while frame is not None:
        if frame.f_code.co_filename == found.loop.file and frame.f_lineno in found.lines:
            return True
        frame = frame.f_back
    return called is None


def _finding(found: Detached, cut: Severed, place: Place, lost: int) -> Finding:
    names = listed(found.names, 3)
    one = len(found.names) == 1
    return warning(
        "BS154",
        f"{names} {'is' if one else 'are'} detached in each iteration: the loss trains only the last one.",
        (
            shown(found.place, f"detaches {'it' if one else 'them'} in each iteration."),
            if_known(place if place.line != found.place.line else None, ends(cut)),
            "The graph of the loss holds the last iteration alone; no gradient reaches the "
            f"{counted(lost, 'iteration')} before it.",
        ),
        _fix(found),
        found.place,
    )


def _fix(found: Detached) -> str:
    attached = found.place.text.replace(".detach()", "").replace(".data", "")
    change = f"Remove this line{gone(found.place)}"
    if found.order == "within":
        change = f"Write {attached}{written(found.place, attached)}"
    return (
        f"{change}, so that the graph reaches back to the first iteration. If {listed(found.names, 3)} may come from "
        f"an earlier training step, detach once, before line {found.loop.line}."
    )


# What a loop over the steps of a sequence carries from one step to the next, and detaches on the way.


_TAKES_APART = frozenset({"unbind", "transpose", "permute", "swapaxes", "movedim"})
_TAKES_ONE = frozenset({"select", "index_select"})


@dataclass(frozen=True)
class Detached:
    """A variable that each iteration detaches: the statement, the names, the header of the loop, and its lines.

    order: whether it is detached before it is computed anew, within the statement that does that, or after it.
    """

    names: tuple[str, ...]
    place: Place
    order: Literal["before", "within", "after"]
    loop: Place
    lines: range


def detached(cut: Place) -> Detached | None:
    """Return what a loop detaches in each iteration at a cut, or by calling the function that cuts.

    Only a loop that takes another step of a sequence in each iteration: what is iterated on one input, such as a fixed
    point or the samples of a diffusion, may be meant to learn from the last iteration alone.
    """
    body, statement = read_at(cut)
    if body is None or statement is None:
        return None
    if (here := _in_loop(body, statement)) is not None:
        return here
    inside = body.name == "forward" and statement in body.node.body
    called = _cells(body) if inside else {body.name}
    calling = [
        (each, s)
        for each in functions(cut.file)
        if each.node is not body.node
        for s in statements(each.node)
        if any(callee(call)[1] in called for call in calls_in(s))
    ]
    found = [_in_loop(each, s, inside=inside) for each, s in calling if _loop(each, s) is not None]
    if len(found) != 1 or found[0] is None:
        return None
    return replace(found[0], place=body.place(statement), order="before") if inside else found[0]


def _cells(body: Body) -> set[str]:
    """Return what the file calls the modules whose `forward` this is: `cell` of `self.cell = Cell(4)`."""
    every = list(functions(body.file))
    classes = {c.name for c in ast.walk(every[0].node) if isinstance(c, ast.ClassDef) and body.node in c.body}
    pairs = (pair for each in every for s in statements(each.node) for pair in assigned(s))
    return {
        ending(dotted(target)) for target, value in pairs if isinstance(value, ast.Call) and callee(value)[1] in classes
    }


def _loop(body: Body, statement: ast.stmt) -> ast.For | None:
    """Return the innermost loop that runs a statement in each of its iterations, on no condition."""
    return next((s for s in statements(body.node) if isinstance(s, ast.For) and statement in s.body), None)


def _in_loop(body: Body, statement: ast.stmt, *, inside: bool = False) -> Detached | None:
    """Return what a statement detaches in each iteration of a loop; `inside`: in a module that it calls."""
    loop = _loop(body, statement)
    if loop is None or not isinstance(statement, ast.Assign) or not _takes_steps(body, loop):
        return None
    read = {use.name for use in uses(statement) if not use.binds}
    names = tuple(dict.fromkeys(use.name for use in uses(statement) if use.binds and use.name in read))
    again = [
        inner.lineno
        for each in loop.body
        for inner in _within(each)
        if inner is not statement and not set(names).isdisjoint(bound(inner))
    ]
    itself = inside or any(callee(call)[1] != "detach" and _detaches(call, names) for call in calls_in(statement))
    if not names or not (itself or again):
        return None
    order: Literal["before", "within", "after"] = (
        "within" if itself else "before" if max(again) > statement.lineno else "after"
    )
    lines = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
    return Detached(names, body.place(statement), order, body.place(loop), lines)


def _within(statement: ast.stmt) -> Iterator[ast.stmt]:
    return (each for each in ast.walk(statement) if isinstance(each, ast.stmt))


def _detaches(call: ast.Call, names: tuple[str, ...]) -> bool:
    """Whether an argument of a call is one of the variables, detached: `cell(x, h.detach())`."""
    given = [*call.args, *(each.value for each in call.keywords)]
    inner = (each for whole in given for each in ast.walk(whole) if isinstance(each, ast.Attribute))
    return any(each.attr in ("detach", "data") and dotted(each.value) in names for each in inner)


def _takes_steps(body: Body, loop: ast.For) -> bool:
    """Whether each iteration takes one step of a sequence: `for x in xs.unbind(1)`, or `xs[:, t]` in it."""
    turning = set(target_names(loop.target))
    if _is_taken_apart(body, loop.iter):
        return True
    sized = any(isinstance(each, ast.Attribute) and each.attr in ("size", "shape") for each in ast.walk(loop.iter))
    for each in (e for s in loop.body for inner in _within(s) for e in expressions(inner)):
        match each:
            case ast.Subscript(slice=ast.Tuple(elts=parts)):
                if any(isinstance(part, ast.Name) and part.id in turning for part in parts):
                    return True
            case ast.Subscript(slice=ast.Name(id=name)):
                if sized and name in turning:
                    return True
            case ast.Call():
                if callee(each)[1] in _TAKES_ONE and any(dotted(given) in turning for given in each.args):
                    return True
    return False


def _is_taken_apart(body: Body, iterated: ast.expr) -> bool:
    """Whether an expression, or what a name in it was assigned, makes the steps the first dimension."""
    for each in ast.walk(iterated):
        if isinstance(each, ast.Call) and callee(each)[1] in _TAKES_APART:
            return True
        if isinstance(each, ast.Name):
            made = [s.value for s in statements(body.node) if isinstance(s, ast.Assign) and each.id in bound(s)]
            calls = (call for value in made for call in ast.walk(value) if isinstance(call, ast.Call))
            if any(callee(call)[1] in _TAKES_APART for call in calls):
                return True
    return False
