"""A tensor with a graph that the program assigns where a module has a parameter: a weight that is computed."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import listed
from backsight.source import Body
from backsight.source.bindings import uses
from backsight.source.body import calls_in, dotted, functions, statements
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.memory import is_tensor, needs_gradient

_MOST = 4


def assigned_parameter(found: Refusal) -> str:
    """Return how the module computes with the tensor; empty where it has no graph, or the text does not show both."""
    level, statement = found.level, found.level.statement
    targets = _computed(level, statement)
    if level.body is None or not isinstance(statement, ast.Assign) or not targets:
        return ""
    if any(use.name == targets[0] and not use.binds for use in uses(statement)):
        return ""  # it is computed from the parameter, which therefore cannot go first
    owner, _, name = targets[0].rpartition(".")
    value = level.body.text(statement.value)
    overwrite = f"To overwrite only the values: `with torch.no_grad(): {targets[0]}.copy_({value})`."
    if any(each.function.rpartition(".")[2] == "__init__" for each in found.failure.users):
        own = all(use.name.startswith("self") for use in uses(statement.value) if not use.binds)
        called = _call_of(found, owner, name, value) if own else ""
        if called:
            return f"Compute it in each forward: remove line {statement.lineno}, and {called}. {overwrite}"
        return ""
    also = [each for each in statements(level.body.node) if each.lineno > statement.lineno and _computed(level, each)]
    lines = [str(each.lineno) for each in also]
    alike = "; ".join(f"`del {_computed(level, each)[0]}` above line {each.lineno}" for each in also[:_MOST])
    more = f"; and so for lines {listed(lines[_MOST:])}" if len(lines) > _MOST else ""
    return (
        f"Remove the parameter first, so that {owner} computes with the tensor and its graph: put `del {targets[0]}` "
        f"above line {statement.lineno}{f'; {alike}' if alike else ''}{more}. {overwrite}"
    )


def _computed(level: Level, statement: ast.stmt | None) -> list[str]:
    """The parameter that a statement assigns a tensor with a graph to, which is no parameter."""
    if not isinstance(statement, ast.Assign):
        return []
    value = value_of(level, statement.value)
    known = is_tensor(value) and (not needs_gradient(value) or isinstance(value, torch.nn.Parameter))
    names = [dotted(each) for each in statement.targets]
    return [each for each in names if each and isinstance(level.value(each), torch.nn.Parameter) and not known]


def _call_of(found: Refusal, owner: str, name: str, value: str) -> str:
    """The only statement that calls a module, with the tensor in place of its parameter."""
    calls: list[tuple[Body, ast.stmt, ast.Call]] = [
        (body, each, call)
        for file in user_files(found.failure)
        for body in functions(file)
        for each in statements(body.node)
        for call in calls_in(each)
        if dotted(call.func) == owner and not call.keywords
    ]
    if len(calls) != 1:
        return ""
    body, statement, call = calls[0]
    given = "".join(f"{body.text(each)}, " for each in call.args).rstrip(" ")
    new = rewritten(body, statement, {call: f"torch.func.functional_call({owner}, {{'{name}': {value}}}, ({given}))"})
    return f"on line {statement.lineno} write `{new}`" if new else ""
