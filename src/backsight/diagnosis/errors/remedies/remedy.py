"""`@remedy`: what to write instead, as a function of a `Refusal` and of the match of its message."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from backsight.diagnosis.evidence.refused import Refusal
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.source import Body, Place, function_at
from backsight.source.bindings import spots
from backsight.source.body import as_function
from backsight.source.edits import Edit, change, write
from backsight.source.out_of_place import arguments
from backsight.story.failure import Level
from backsight.story.memory import is_module
from backsight.story.sections import function_called, undecorated
from backsight.tape import registered


class Remedy(NamedTuple):
    """What to do, what else was read for it, the statement that is to be changed, if it is not the failing one, and the
    cause in words, where that says more than the message."""

    fix: str
    evidence: tuple[Fact, ...] = ()
    place: Place | None = None
    title: str = ""


Match: TypeAlias = "re.Match[str]"
Function: TypeAlias = Callable[[Refusal, Match], Remedy | None]

REMEDIES: list[tuple[re.Pattern[str], Function]] = []


def remedy(pattern: str) -> Callable[[Function], Function]:
    """Enter a function for messages in which this pattern is found."""

    def enter(function: Function) -> Function:
        REMEDIES.append((re.compile(pattern, re.DOTALL), function))
        return function

    return enter


def anew(body: Body, statement: ast.stmt, new: str) -> Edit:
    """Write what `rewritten` has returned: of a lambda's expression, which is a part of a statement, its whole line."""
    place = body.place(statement)
    is_part = body.name == "<lambda>"
    return change(place, body.lines[statement.lineno - 1].strip(), new) if is_part else write(place, new)


def without_argument(body: Body, call: ast.Call, name: str) -> str:
    """A call without the argument of this name."""
    return f"{body.text(call.func)}({', '.join(arguments(body, call, name))})"


def blocks_around(level: Level) -> list[ast.stmt]:
    """The compound statements around that of a level, the innermost first."""
    every = spots(level.body)
    return next(([arm for arm, _ in reversed(each.arms)] for each in every if each.node is level.statement), [])


def contexts(level: Level) -> Iterator[tuple[ast.With, ast.Call]]:
    """The calls in the `with` statements around that of a level, the innermost first."""
    for arm in blocks_around(level):
        if isinstance(arm, ast.With):
            yield from ((arm, item.context_expr) for item in arm.items if isinstance(item.context_expr, ast.Call))


def source_of(level: Level, node: ast.expr) -> Body | None:
    """The function that an expression stands for: a lambda, a name, a method, a module's forward."""
    if isinstance(node, ast.Lambda):
        return replace(level.body, node=as_function(node)) if level.body is not None else None
    function, _ = function_called(level, ast.Call(node, [], []))
    found = undecorated(function) if function is not None else None
    return function_at(found.__code__) if found is not None else None


def objects_held(level: Level, kind: type) -> list[str]:
    """What a function calls its objects of a kind: its variables, else the attributes of its `self`."""
    owner = level.variables.get("self")
    own = {**(namespace(owner) or {}), **(registered(owner, "_modules") if is_module(owner) else {})}
    held = [name for name, each in level.variables.items() if name != "self" and issubclass(type(each), kind)]
    return held or [f"self.{name}" for name, each in own.items() if issubclass(type(each), kind)]
