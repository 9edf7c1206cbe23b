"""What makes two programs compute the same again: which call to remove or to add, which argument to set alike."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from typing import Any

from backsight.source import Place as Statement
from backsight.source.body import expressions, functions, statements
from backsight.text import listed
from backsight.traces.judging import Judged
from backsight.traces.origins import Origin
from backsight.traces.pairing import VIEWS, plain_name
from backsight.traces.records import Operation, Place


def alike(judged: Judged) -> str:
    """Return what to change where operations or their arguments differ; empty where that is not known."""
    origin, (first, second) = judged.origin, judged.origin.places
    if any(" mode in A and " in each for each in judged.reasons[:1]):
        return ""
    if origin.kind == "operation" and origin.arguments:
        names = listed([f"`{name}`" for name, *_ in origin.arguments])
        if len(origin.arguments) > 1:
            return f"Give {names} the same values in both."
        told = [f"{here(*_at(each))} sets it to {each.text}" for each in written_at(origin) if each]
        return f"Give {names} the same value in both{': ' if told else ''}{listed(told)}."
    ours, theirs = _telling(origin.only_a), _telling(origin.only_b)
    if origin.kind != "program" or not first or not second or max(len(ours), len(theirs)) > 1:
        return ""
    if ours and theirs:
        return f"Call {ours[0]} on {here(*_at(second))} too, or {theirs[0]} on {here(*_at(first))}."
    if ours or theirs:
        has, lacks = (first, second) if ours else (second, first)
        return f"Remove {(ours or theirs)[0]} on {here(*_at(has))}, or add it on {here(*_at(lacks))}."
    return ""


def written_at(origin: Origin) -> tuple[Place, Place]:
    """Return where A and B write the value of the first argument that differs, with the value as the text of the place;
    empty where the file does not show it in one place alone."""
    if origin.kind != "operation" or not origin.arguments:
        return Place(), Place()
    name, ours, theirs = origin.arguments[0]
    return _written(origin.places[0], name, ours), _written(origin.places[1], name, theirs)


def statement_of(place: Place) -> Statement | None:
    """Return the statement at a place, as the file has it."""
    found = [body.place(each) for body in functions(place.file) for each in statements(body.node)]
    return next((each for each in found if each.line == place.line), None)


def here(file: str, line: int) -> str:
    return f"{file.removeprefix(os.getcwd() + os.sep)}:{line}"


def _at(place: Place) -> tuple[str, int]:
    return place.file, place.line


def _telling(operations: Sequence[Operation]) -> list[str]:
    return [each.short for each in operations if plain_name(each.op) not in VIEWS]


def _written(at: Place, name: str, value: Any) -> Place:
    bodies = [*functions(at.file)] if at and isinstance(value, int | float | str) else []
    runs = any(body.place(each).text == at.text for body in bodies for each in statements(body.node))
    found = [
        Place(at.file, statement.lineno, "", ast.unparse(keyword.value))
        for body in (bodies if runs else [])  # else the file was changed since
        for statement in statements(body.node)
        for call in expressions(statement)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value == value
    ]
    return found[0] if len(found) == 1 else Place()
