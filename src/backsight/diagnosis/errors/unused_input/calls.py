"""A call on the way to the output leaves the input out: a function ignores its argument, or another model is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused, computed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Body, Place, function_at, statement_at
from backsight.source.bindings import uses
from backsight.source.body import dotted, expressions, statements
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.memory import is_module, is_tensor, shape_of
from backsight.story.sections import Section, function_called, held_by, passed, section_of, undecorated
from backsight.tape import parameters_in


def ignored(case: Unused) -> Finding | None:
    """A function is given what is computed from the input, and none of its statements reads that parameter."""
    here = _section(case)
    name = _held_as(here.level, case.tensors[0]) if here is not None and here.level is not None else ""
    for call, place in here.calls() if here is not None and name and len(case.tensors) == 1 else ():
        function, owner = function_called(here, call) if here is not None else (None, None)
        code = getattr(undecorated(function), "__code__", None)
        inner = function_at(code) if code is not None else None
        if inner is None:
            continue
        read = {use.name.partition(".")[0] for each in statements(inner.node) for use in uses(each) if not use.binds}
        for parameter, given in passed(undecorated(function), owner, call).items():
            if parameter in read or name not in {use.name for use in uses(ast.Expr(given))}:
                continue
            called = getattr(inner.node, "name", "the function")
            at, new = _using(inner, undecorated(function), owner, parameter, shape_of(case.tensors[0]))
            where = at or inner.place(inner.node.body[0])
            return explanation(
                f"{case.output} does not depend on {case.name}: {called}() ignores its argument {parameter}.",
                (
                    shown(place, f"passes it {here.body.text(given) if here else parameter}."),
                    shown(where, f"computes the result without {parameter}."),
                    case.asked,
                ),
                f"On line {where.line}, write `{new}`." if new else f"Use {parameter} in {called}().",
                source=str(where),
            )
    return None


def another_model(case: Unused) -> Finding | None:
    """The gradient is asked for with respect to the parameters of one model, and another one of its kind is called."""
    here, wanted = _section(case), {id(each) for each in case.tensors}
    if here is None or here.level is None or len(case.tensors) < len(case.failure.inputs):
        return None
    every = [(name, value) for name, value in here.level.variables.items() if is_module(value)]
    model, name = next(((value, name) for name, value in every if wanted <= _ids(value)), (None, ""))
    for call, place in here.calls() if model is not None else ():
        other = here.value(dotted(call.func) or "")
        statement = statement_at(here.body, *place.position)
        if not is_module(other) or other is model or _shapes(other) != _shapes(model) or statement is None:
            continue
        called, line = dotted(call.func), rewritten(here.body, statement, {call.func: name})
        return explanation(
            f"{case.output} does not depend on the parameters of {name}: {called} computes it.",
            (shown(place, f"calls {called}, which has parameters of its own."), *computed(case), case.asked),
            f"On line {place.line}, write `{line}`." if line else f"Call {name} instead of {called}.",
            source=str(place),
        )
    return None


def _section(case: Unused) -> Section | None:
    level = case.failure.user
    return section_of(level, ((level.receiver, level.line),)) if level is not None and level.receiver else None


def _held_as(level: Level, tensor: object) -> str:
    return next((name for name, value in level.variables.items() if value is tensor), "")


def _using(inner: Body, function: Any, owner: object, parameter: str, shape: object) -> tuple[Place | None, str]:
    """The statement that reads a tensor of the same shape from outside of the function, with the parameter instead."""
    outside = {**function.__globals__, **held_by(function, owner)}
    for each in statements(inner.node):
        nodes = list(_like(each, outside, shape))
        line = rewritten(inner, each, dict.fromkeys(nodes, parameter)) if nodes else ""
        if line:
            return inner.place(each), line
    return None, ""


def _like(statement: ast.stmt, outside: dict[str, object], shape: object) -> Iterator[ast.expr]:
    for node in expressions(statement):
        value = outside.get(node.id) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None
        if is_tensor(value) and shape_of(value) == shape:
            yield node


def _ids(model: Any) -> set[int]:
    return {id(each) for each in parameters_in(model)}


def _shapes(model: Any) -> list[object]:
    return [shape_of(each) for each in parameters_in(model)]
