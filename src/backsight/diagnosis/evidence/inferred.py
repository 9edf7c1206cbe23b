"""The `torch.inference_mode()` under which a tensor was made: a block, or the decorator of a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from backsight.diagnosis.evidence.disabled import disabled_at, disabled_by
from backsight.source import Body, Place, assignments, function_at, statement_at
from backsight.source.bindings import spots
from backsight.source.body import calls_in, dotted
from backsight.story.failure import Failure, Level, function_of, method
from backsight.story.sections import methods_of, undecorated
from backsight.tracing import current, inferred

_DEPTH = 3


@dataclass(frozen=True)
class Block:
    """A `with torch.inference_mode():` or such a decorator; `made` is the statement that called it, if elsewhere, or
    the one inside that a watch has seen to make the tensor."""

    place: Place
    what: str
    made: Place | None = None


def inference_seen(tensor: torch.Tensor) -> Block | None:
    """Return the block or function in which a watch has seen a tensor made, or what it is a view of."""
    watch = current()
    made = inferred(watch, tensor) if watch is not None else None
    off = disabled_by(made) if made is not None else None
    if made is None or made.line is None or off is None:
        return None
    return Block(off.place, "its block", made.line.place)


def inference_block(failure: Failure, name: str) -> Block | None:
    """Return the block or function under inference mode in which the variable `name` was given its value."""
    for level in failure.users:
        for body, at in _assignments(level, name):
            statement = statement_at(body, *at.position)
            block = _around(body, statement) if statement is not None else None
            if block is None and statement is not None:
                block = _called(level, statement, _DEPTH)
                block = Block(block.place, block.what, at) if block is not None else None
            if block is not None:
                return block
    for level in failure.users[1:]:  # what a call has returned may have been handed on without a name
        block = _called(level, level.statement, _DEPTH) if level.statement else None
        if block is not None:
            return Block(block.place, block.what, level.place)
    return None


def _assignments(level: Level, name: str) -> Iterator[tuple[Body, Place]]:
    """The statements that assign a variable, the container that it is an item of, or the object that has it."""
    parts = name.partition("[")[0].split(".")
    for end in range(len(parts), 0, -1):
        variable = ".".join(parts[:end])
        for place in reversed(assignments(level.body, variable)) if level.body else ():
            yield level.body, place  # type: ignore[misc]  # there is a body, or there were no places
        owner, _, attribute = variable.rpartition(".")
        for body in methods_of(type(level.value(owner))) if owner and level.value(owner) is not None else ():
            yield from ((body, place) for place in assignments(body, f"self.{attribute}"))


def _around(body: Body, statement: ast.stmt) -> Block | None:
    """The inference mode that a statement stands in."""
    off = disabled_at(body, statement.lineno, "inference")
    what = f"{off.function or 'the function'}()" if off is not None and off.is_decorator else "this block"
    return Block(off.place, what) if off is not None else None


def _called(level: Level, statement: ast.stmt, depth: int) -> Block | None:
    """The inference mode in which a function that the statement calls makes what it returns."""
    for call in calls_in(statement):
        function = undecorated(_function(level, dotted(call.func) or ""))
        inner = function_at(function.__code__) if type(function).__name__ == "function" else None
        if inner is None:
            continue
        returns = [each.node for each in spots(inner.node) if isinstance(each.node, ast.Return)]
        for each in returns or inner.node.body[-1:]:
            found = _around(inner, each) or (_called(level, each, depth - 1) if depth > 1 else None)
            if found is not None:
                return found
    return None


def _function(level: Level, name: str) -> Any:
    value = level.value(name)
    if value is not None:
        return function_of(value)
    owner = level.value(name.rpartition(".")[0]) if "." in name else None
    return method(type(owner), name.rpartition(".")[2]) if owner is not None else None
