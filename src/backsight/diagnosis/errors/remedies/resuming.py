"""A scheduler is told to resume, with an optimizer that no scheduler has seen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, assignments, statement_at
from backsight.source.bindings import assigned
from backsight.source.body import callee, calls_in, keyword
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level


class _Argument(NamedTuple):
    """Where a value enters the calls of the program, as it is written there: no parameter of that function."""

    level: Level
    value: ast.expr


@remedy(r"param 'initial_lr' is not specified in param_groups\[\d+\] when resuming")
def _resumed(found: Refusal, match: Match) -> Remedy | None:
    """Say where `last_epoch` comes from, and what it is for a training that begins."""
    variables = found.below[-1].variables
    optimizer, epoch = variables.get("optimizer"), variables.get("last_epoch")
    if not isinstance(optimizer, torch.optim.Optimizer) or type(epoch) is not int:
        return None
    name = names_of(found.failure, [optimizer])[0] or "the optimizer"
    argument = _argument(found, "last_epoch")
    lines: list[Fact] = []
    place, begins = None, "leave last_epoch at its default, -1"
    if argument is not None:
        level, value = argument
        place, body = level.place, level.body
        text = body.text(value) if body else ""
        shows = text if text == str(epoch) else f"{text}, which is {epoch}"
        here = place == found.level.place
        lines.append(f"last_epoch is {shows}." if here else shown(place, f"passes last_epoch={shows}."))
        for at, new in _decided(level, text, epoch):
            lines.append(shown(at, f"sets {text}."))
            place, begins = at, f"{begins}: `{new}` on line {at.line}, if nothing else counts from it"
    lines.append(f"With last_epoch={epoch} it resumes, from the initial_lr of each group; {name} has none.")
    return Remedy(
        f"To begin a training, {begins}. To resume one, load the state of {name}, saved while it had a scheduler, "
        "before making this one.",
        tuple(lines),
        place,
    )


def _argument(found: Refusal, name: str) -> _Argument | None:
    """The expression that is passed for a parameter, by the outermost function that only hands it on."""
    result, code = None, found.below[0].frame.f_code
    for level in found.failure.users:
        value = _passed(level.statement, code, name)
        if value is None:
            break
        result, code = _Argument(level, value), level.frame.f_code
        name = value.id if isinstance(value, ast.Name) else ""
        if name not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            break
    return result


def _passed(statement: ast.stmt | None, code: CodeType, name: str) -> ast.expr | None:
    """What a statement passes for a parameter of a function that it runs."""
    parameters = code.co_varnames[: code.co_argcount]
    at = parameters.index(name) - (parameters[:1] == ("self",)) if name in parameters else len(parameters)
    for call in calls_in(statement):
        if (given := keyword(call, name)) is not None:
            return given
        method = callee(call)[1]
        runs = code.co_name in (method, "__init__") and not any(isinstance(each, ast.Starred) for each in call.args)
        if runs and len(call.args) > at:
            return call.args[at]
    return None


def _decided(level: Level, name: str, value: int) -> Iterator[tuple[Place, str]]:
    """The only statement of the function that sets the variable to this number, and the same with -1."""
    body: Body | None = level.body
    every = [
        (body.place(statement), rewritten(body, statement, {given: "-1"}))
        for place in assignments(body, name, before=level.line)
        if body is not None and (statement := statement_at(body, *place.position)) is not None
        for target, given in assigned(statement)
        if body.text(target) == name and isinstance(given, ast.Constant) and given.value == value
    ]
    if len(every) == 1:
        yield every[0]
