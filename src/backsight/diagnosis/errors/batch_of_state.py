"""A recurrent module that is given the state of another batch: PyTorch's message has the two sizes alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.registry import refusal
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, if_known, shown
from backsight.naming.plain import namespace
from backsight.source import Place, assignments, loop_facts, statement_at
from backsight.source.bindings import parameters_of, uses
from backsight.source.body import LOOPS, callee, calls_in, dotted, statements
from backsight.source.edits import OR, instead, put_at
from backsight.source.rewriting import with_flag
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_tensor
from backsight.tape import tensors_in

_LAYERS = re.compile(r"Expected hidden(?:\[\d\])? size \((\d+), (\d+), (\d+)\), got \[(\d+), (\d+), (\d+)\]")
_CELLS = re.compile(r"Input batch size (\d+) doesn't match hidden\d? batch size (\d+)")


class _State(NamedTuple):
    """What a function calls the state, and which statement left it."""

    level: Level
    name: str
    left: Place | None


def batch_of_state(found: Refusal) -> Finding | None:
    """Say which variable carries the state, of how many rows, and where it was left; None for another error."""
    sizes, call, module = _sizes(found.failure.message), found.expression, found.module
    given = call.args[1] if isinstance(call, ast.Call) and len(call.args) == 2 else None
    name = dotted(given) or ""
    if sizes is None or not isinstance(call, ast.Call) or not name or module is None:
        return None
    (rows, before), state = sizes, _carried(found.failure, name)
    passes = ", and passes it on with the next batch" if state.left == state.level.place != found.level.place else ""
    lines = (
        if_known(state.left, f"keeps the state of a batch of {before}{passes}."),
        shown(found.level.place, f"gets {counted(rows, 'row')} and a state of {before}."),
    )
    last, new = _last_batch(found.failure, rows, before), _new_state(found, call, name)
    fix = f"{last} {OR}Or start with a new state: {new}." if last else f"Start with a new state: {new}."
    title = f"{state.name} holds the state of a batch of {before}, but this batch has {counted(rows, 'row')}."
    return refusal(found, title, lines, fix, state.left, exact=state.left is not None)


def _sizes(message: str) -> tuple[int, int] | None:
    """The rows of the batch and of the state, where only these differ."""
    if match := _LAYERS.search(message):
        expected, got = [*map(int, match.groups()[:3])], [*map(int, match.groups()[3:])]
        return (expected[1], got[1]) if expected[::2] == got[::2] else None
    match = _CELLS.search(message)
    return (int(match[1]), int(match[2])) if match else None


def _carried(failure: Failure, name: str) -> _State:
    """Follow a state outwards through the arguments of the functions that run, to what keeps it between two batches."""
    levels = list(failure.users)
    for level, caller in zip(levels, [*levels[1:], None], strict=True):
        body = level.body
        facts = loop_facts(body, level.line)
        while facts is not None and name not in facts.carried:
            facts = facts.enclosing
        if facts is not None:
            return _State(level, name, facts.carried[name][1])
        if body is None or caller is None or name not in parameters_of(body.node):
            kept = assignments(body, name) if "." in name else ()
            return _State(level, name, kept[-1] if kept else None)
        outer = _argument(level, caller, name)
        if not outer:
            return _State(level, name, None)
        name = outer
    raise AssertionError  # the last level has no caller


def _argument(level: Level, caller: Level, name: str) -> str:
    """What the calling function gives for a parameter, by the value of it."""
    value = level.value(name)
    for call in calls_in(caller.statement):
        for given in (*call.args, *(each.value for each in call.keywords)):
            if value is not None and (outer := dotted(given)) and value_of(caller, given) is value:
                return outer
    return ""


def _last_batch(failure: Failure, rows: int, before: int) -> str:
    """The line that makes the loader, without a smaller last batch, if that is what has come."""
    for level, name, loader in _loaders(failure):
        held = namespace(loader) or {}
        if held.get("drop_last") is not False or held.get("batch_size") != before or rows >= before:
            continue
        for outer in failure.users[failure.users.index(level) :]:
            names = (each for each in (name, *outer.variables) if outer.value(each) is loader)
            places = next(filter(None, (assignments(outer.body, each) for each in names)), ())
            made = statement_at(outer.body, *places[-1].position) if places else None
            if made is None or outer.body is None:
                continue
            for call in calls_in(made):
                is_loader = callee(call)[1].endswith("DataLoader")
                line = with_flag(outer.body, made, call, "drop_last") if is_loader else ""
                if line:
                    edit = instead(outer.body, made, line)
                    return f"Leave out the last, smaller batch: on line {made.lineno}, write `{line}`{edit}."
        return f"Leave out the last, smaller batch: create {name} with drop_last=True."
    return ""


def _loaders(failure: Failure) -> Iterator[tuple[Level, str, object]]:
    """The loaders that the functions which run iterate over, with what they call them."""
    for level in failure.users:
        for loop in statements(level.body):
            if isinstance(loop, LOOPS) and loop.lineno <= level.line <= (loop.body[-1].end_lineno or 0):
                for use in uses(getattr(loop, "iter", None)):
                    value = level.value(use.name)
                    if issubclass(type(value), torch.utils.data.DataLoader):
                        yield level, use.name, value


def _new_state(found: Refusal, call: ast.Call, name: str) -> str:
    """The statement that drops a state of another size, before the module that starts anew where it gets None."""
    text = found.level.body.text(call.args[0]) if found.level.body else "x"
    held, cell = found.level.value(name), "batch_first" not in (namespace(found.module) or {})
    part = name if is_tensor(held) else f"{name}[0]"
    axes = [0 if cell else 1, 0 if cell or (namespace(found.module) or {}).get("batch_first") else 1]
    if not any(True for _ in tensors_in(held)) or not dotted(call.args[0]):
        return f"give None instead of {name} where the number of rows changes"
    new = f"if {name} is not None and {part}.size({axes[0]}) != {text}.size({axes[1]}): {name} = None"
    return put_at(new, "above", found.level.place)
