"""The `torch.inference_mode()` under which a tensor was made: a block, or the decorator of a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backsight.source import Body, Place, assignments, function_at, statement_at
from backsight.source.bindings import spots
from backsight.source.body import dotted, expressions
from backsight.story.failure import Failure, Level, function_of, method
from backsight.story.sections import methods_of, undecorated

_DEPTH = 3


@dataclass(frozen=True)
class Block:
    """A `with torch.inference_mode():` or such a decorator; `made` is the statement that called it, if elsewhere."""

    place: Place
    what: str
    made: Place | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether it stands in another file than the statement that called it."""
        return self.made is not None and self.made.file != self.place.file


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
    spot = next((each for each in spots(body.node) if each.node is statement), None)
    for around, _ in reversed(spot.arms) if spot else ():
        if isinstance(around, ast.With) and any(_is_mode(item.context_expr) for item in around.items):
            return Block(body.place(around), "the statements of this block")
    decorator = next((each for each in getattr(body.node, "decorator_list", ()) if _is_mode(each)), None)
    if decorator is not None:
        place = body.place(decorator, f"@{body.text(decorator)}")
        return Block(place, f"the statements of {getattr(body.node, 'name', 'the function')}()")
    return None


def _is_mode(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    off = isinstance(node, ast.Call) and any(
        isinstance(each, ast.Constant) and each.value is False for each in node.args
    )
    return (dotted(called) or "").rpartition(".")[2] == "inference_mode" and not off


def _called(level: Level, statement: ast.stmt, depth: int) -> Block | None:
    """The inference mode in which a function that the statement calls makes what it returns."""
    for call in (node for node in expressions(statement) if isinstance(node, ast.Call)):
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
