"""Which functions put a state back that they, or another method, had read too late: after it was changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from backsight.source.bindings import Spot, assigned, bound, names_read, spots, target_names, uses
from backsight.source.body import (
    LOOPS,
    Body,
    Place,
    body_around,
    callee,
    calls_in,
    dotted,
    expressions,
    functions,
    is_constant,
)
from backsight.source.edits import move, on_line_with, sentence

State = Literal["grad mode", "requires_grad"]


@dataclass(frozen=True)
class ReadTooLate:
    """A state that was changed before it was read, and that is put back as it was read.

    read: the statement that reads it; changed: the one that had changed it by then; restored: what puts it back.
    is_lazy: whether the statement only prepares to read it, as a generator does, and reads when that is used up.
    fix: what reads it in time.
    """

    read: Place
    changed: Place
    restored: Place
    is_lazy: bool
    fix: str


def read_too_late(file: str, state: State) -> Iterator[ReadTooLate]:
    """Yield what the functions and classes of a file put back wrongly."""
    module = body_around(file, 0)
    for scope in ast.walk(module.node) if module is not None else ():
        if module is not None and isinstance(scope, ast.FunctionDef | ast.Module):
            body = Body(file, scope, module.lines)
            yield from _put_back(body, [body], state)
        elif module is not None and isinstance(scope, ast.ClassDef):
            methods = [Body(file, each, module.lines) for each in scope.body if isinstance(each, ast.FunctionDef)]
            for reading in methods:
                yield from _put_back(reading, [each for each in methods if each is not reading], state)


def _put_back(reading: Body, restoring: list[Body], state: State) -> Iterator[ReadTooLate]:
    """What one function reads, and these functions put back; to another method an attribute has to carry it."""
    every = spots(reading.node)
    changes = [each for each in every if _sets(each.node, state, off=True)]
    reads = ((spot, *each) for spot in every if changes for each in assigned(spot.node))
    for spot, target, value in reads:
        name, lazy = dotted(target), _is_lazy(value, state)
        if name is None or not any(_reads(node, state) for node in ast.walk(value)):
            continue
        for body in restoring:
            same = body is reading
            puts_back = (each for each in spots(body.node) if _puts_back(each, name, state))
            restored = next((each for each in puts_back if not same or each.order > spot.order), None)
            if restored is None or not (same or "." in name):
                continue
            changed = _changed_later(every, changes, spot, restored if same else None, name) if lazy else None
            changed = changed if lazy else next((each for each in changes if _has_run(each, spot)), None)
            fix = _at_once(reading, spot.node, value) if lazy else _above(reading, every, spot, changed)
            if changed is not None and fix:
                places = (reading.place(spot.node), reading.place(changed.node), body.place(restored.node))
                yield ReadTooLate(*places, lazy, fix)


def _above(body: Body, every: list[Spot], read: Spot, changed: Spot | None) -> str:
    """How to read the state before it is changed: that goes up; what needs it in between, the change down."""
    if changed is None:
        return ""
    apart = next((arm for arm, _ in changed.arms if arm not in [each for each, _ in read.arms]), changed.node)
    between = [each.node for each in every if each.node.lineno >= apart.lineno and each.order < read.order]
    made = {name for each in between for name in bound(each)}
    if made & names_read(read.node):
        last = apart.end_lineno or apart.lineno
        lines = f"line {last}" if last == apart.lineno else f"lines {apart.lineno} to {last}"
        edit = move(body.place(apart), "below", body.place(read.node))
        return f"Move {lines} below line {read.node.lineno}, `{body.text(read.node)}`{edit}"
    where = f"above line {apart.lineno}, `{body.text(apart)}`{move(body.place(read.node), 'above', body.place(apart))}"
    return f"Move line {read.node.lineno}, `{body.text(read.node)}`, {where}"


def put_back_unless_raised(file: str, state: State) -> Iterator[tuple[Place, Place]]:
    """Yield what a context manager turns off above its `yield`, and what turns it on again below, if that is in no
    `finally`: an exception in the block of the `with` skips it."""
    for body in functions(file):
        every = spots(body.node) if isinstance(body.node, ast.FunctionDef) else []
        for off in every:
            later = [each for each in every if each.order > off.order and _outside(each) == _outside(off)]
            on = next((each for each in later if _turns_on(each.node, state)), None)
            waits = on is not None and any(
                each.order < on.order and any(isinstance(node, ast.Yield) for node in expressions(each.node))
                for each in later
            )
            if on is not None and waits and _sets(off.node, state, off=True):
                yield body.place(off.node), body.place(on.node)


def _outside(spot: Spot) -> list[tuple[ast.stmt, str]]:
    """The blocks around a statement, apart from the loop over what it sets."""
    return [arm for arm in spot.arms if not isinstance(arm[0], LOOPS)]


def _turns_on(statement: ast.stmt, state: State) -> bool:
    return bool(_sets(statement, state, off=False)) or any(
        is_constant(each, True) for each in _set_to(statement, state)
    )


def _changed_later(every: list[Spot], changes: list[Spot], read: Spot, restored: Spot | None, name: str) -> Spot | None:
    """The change below what reads only when it is used up, and before it is."""
    loops = restored.around(*LOOPS) if restored is not None else []
    uses_it = (each for each in every if each.order > read.order and each.node not in loops and _uses(each.node, name))
    end = min([restored.order if restored is not None else len(every), *(each.order for each in uses_it)])
    return next((each for each in changes if read.order < each.order < end and _has_run(each, read, end)), None)


def _has_run(change: Spot, read: Spot, before: int | None = None) -> bool:
    """Whether a change has surely run by then: it stands above, under no condition that is not that of the reading."""
    above = change.order < (read.order if before is None else before)
    return above and all(arm in read.arms or isinstance(arm[0], LOOPS) for arm in change.branches)


def _uses(node: ast.AST, name: str) -> bool:
    return any(use.name == name for use in uses(node))


def _puts_back(spot: Spot, name: str, state: State) -> bool:
    """Whether a statement sets the state to what `name` holds, itself or as what a loop takes from it."""
    for value in _sets(spot.node, state, off=False):
        read = names_read(value)
        loops = [loop for loop in spot.around(ast.For) if read & target_names(loop.target)]
        if name in read or any(_uses(loop.iter, name) for loop in loops):
            return True
    return False


def _sets(statement: ast.stmt, state: State, *, off: bool) -> list[ast.expr]:
    """What a statement sets the state to: `False` if it is to be turned off, else anything but a constant."""
    found = _set_to(statement, state)
    return [each for each in found if (is_constant(each, False) if off else not isinstance(each, ast.Constant))]


def _set_to(statement: ast.stmt, state: State) -> list[ast.expr]:
    found: list[ast.expr] = []
    if state == "requires_grad":
        pairs = assigned(statement)
        found += [value for target, value in pairs if isinstance(target, ast.Attribute) and target.attr == state]
    name = "requires_grad_" if state == "requires_grad" else "set_grad_enabled"
    found += [call.args[0] for call in calls_in(statement) if callee(call)[1] == name and call.args]
    return [] if isinstance(statement, ast.With) else found  # which puts back by itself


def _reads(node: ast.AST, state: State) -> bool:
    if state == "grad mode":
        return isinstance(node, ast.Call) and callee(node)[1] == "is_grad_enabled"
    if isinstance(node, ast.Call) and callee(node)[1] == "attrgetter":
        return any(isinstance(each, ast.Constant) and each.value == state for each in node.args)
    return isinstance(node, ast.Attribute) and node.attr == state and isinstance(node.ctx, ast.Load)


_LAZY = frozenset({"map", "filter", "zip", "enumerate", "iter"})


def _is_lazy(value: ast.expr, state: State) -> bool:
    """Whether an expression reads the state only when it is iterated over: a generator, `map(...)`."""
    if isinstance(value, ast.GeneratorExp):
        return not any(_reads(node, state) for node in ast.walk(value.generators[0].iter))
    if isinstance(value, ast.Call) and callee(value) == (None, callee(value)[1]) and callee(value)[1] in _LAZY:
        inside = [each for each in value.args if any(_reads(node, state) for node in ast.walk(each))]
        functions = callee(value)[1] in ("map", "filter") and inside == value.args[:1]
        return functions or (bool(inside) and all(_is_lazy(each, state) for each in inside))
    return False


def _at_once(body: Body, statement: ast.stmt, value: ast.expr) -> str:
    text = ast.unparse(value)
    new = f"[{text[1:-1]}]" if isinstance(value, ast.GeneratorExp) else f"list({text})"
    line = sentence(on_line_with(body, statement, {value: new}))
    return f"{line}, which reads all of them at once" if line else ""
