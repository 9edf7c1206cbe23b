"""A loop over the parameters of a model assigns its own variable, `p = fast`: the model keeps the weights it has."""

from __future__ import annotations

import ast

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused, computed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.source.bindings import bound
from backsight.source.body import callee, calls_in, dotted, expressions, statements
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.holders import results_in
from backsight.story.memory import is_module


def rebound_in_loop(case: Unused) -> Finding | None:
    """Name that assignment, and call the model with the tensors that were meant to be its weights."""
    level, given = case.failure.user, case.name.partition("[")[0]
    held = level.value(given) if level is not None else None
    if level is None or level.body is None or not any(case.tensors[0] is each for each in results_in(held)):
        return None
    for loop in (each for each in statements(level.body.node) if isinstance(each, ast.For)):
        model = _model_of(level, loop)
        wrong = next((each for each in loop.body if _rebinds(each, loop, given)), None)
        if model is None or wrong is None or loop.lineno > level.line:
            continue
        every = given if type(held) is dict else f"dict(zip(dict({model}.named_parameters()), {given}))"
        return explanation(
            f"{case.output} does not depend on {listed(case.names, 2)}: they never became the weights of {model}.",
            (
                shown(
                    level.body.place(wrong),
                    f"gives the variable {next(iter(bound(wrong)))} another tensor; {model} keeps its parameter.",
                ),
                *computed(case),
                case.asked,
            ),
            f"Call {model} with these weights: {_called(level, model, every, loop.lineno)}.",
            source=str(level.body.place(wrong)),
        )
    return None


def _model_of(level: Level, loop: ast.For) -> str | None:
    """The model whose parameters a loop goes through."""
    calls = [callee(each) for each in expressions(loop) if isinstance(each, ast.Call)]
    owners = [dotted(receiver) for receiver, name in calls if name in ("parameters", "named_parameters")]
    return next((owner for owner in owners if owner and is_module(level.value(owner))), None)


def _rebinds(statement: ast.stmt, loop: ast.For, given: str) -> bool:
    """Whether a statement assigns a variable of the loop what it takes from the tensors that are given."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    own = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    read = {each.id for each in ast.walk(statement.value) if isinstance(each, ast.Name)}
    taken = {dotted(each) for each in ast.walk(loop.iter) if isinstance(each, ast.expr)}
    return statement.targets[0].id in own and (given in read or (given in taken and bool(read & own)))


def _called(level: Level, model: str, every: str, below: int) -> str:
    """The calls of the model below the loop, as they are written with other weights."""
    body, lines = level.body, dict[int, str]()
    for each in statements(body.node) if body is not None else ():
        calls = [call for call in calls_in(each) if dotted(call.func) == model and not call.keywords]
        if body is None or each.lineno < below or not calls:
            continue
        texts = {call: ", ".join(body.text(argument) for argument in call.args) for call in calls}
        new: dict[ast.expr, str] = {
            call: f"torch.func.functional_call({model}, {every}, ({text},))" for call, text in texts.items()
        }
        lines[each.lineno] = rewritten(body, each, new) or next(iter(new.values()))
    written = [f"on line {line}, write `{text}`" for line, text in lines.items()]
    return "; ".join(written) or f"torch.func.functional_call({model}, {every}, (x,))"
