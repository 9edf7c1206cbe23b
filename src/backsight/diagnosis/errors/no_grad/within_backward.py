"""A derivative that the backward of a custom Function takes: it runs with gradients disabled."""

from __future__ import annotations

import ast
import re

import torch

from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.source import Body
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, uses
from backsight.source.body import blocks, callee, calls_in, keyword, statements
from backsight.source.imports import is_gradient_call
from backsight.story.failure import Level
from backsight.story.memory import holds_gradient
from backsight.story.modes import nearest_at
from backsight.tape import ENGINE_CALLS

_NAME = re.compile(r"[\w.]+")


def within_backward(scene: Scene) -> Finding | None:
    """What was differentiated was computed in the backward of a custom Function, which records nothing."""
    level = _backward(scene)
    if level is None or level.body is None or not _may_train(scene, level):
        return None
    lines = _computing(scene, level)
    if not lines:
        return None
    first, last = lines[0], lines[-1]
    function = level.function.rpartition("<locals>.")[2]
    where = f"line {first.lineno}" if first is last else f"lines {first.lineno} to {last.end_lineno or last.lineno}"
    text = level.body.text(first)
    single = first is last and first.lineno == first.end_lineno and not isinstance(first, ast.If | ast.For | ast.While)
    return explanation(
        scene.title("the backward of a custom Function runs with gradients disabled"),
        (
            f"{function} is called by autograd, which disables gradients there.",
            *(
                [shown(level.body.place(first), "runs there, so it has no graph.")]
                if first is not level.statement
                else []
            ),
            *failing(scene.failure, "has nothing to backpropagate through."),
        ),
        f"On {where}, write `with torch.enable_grad(): {text}`."
        if single and "…" not in text
        else f"Put {where} inside a `with torch.enable_grad():` block.",
        source=str(level.body.place(first)),
    )


def _backward(scene: Scene) -> Level | None:
    """The level of a custom Function's backward that ran without gradients; None where the text may enable them."""
    failure = scene.failure
    for level in failure.users:
        if level.body is None or nearest_at(level.body, level.line) is not None or _switches(level):
            return None
        given = next(iter(level.variables.values()), None)
        if level.frame.f_code.co_name == "backward" and issubclass(type(given), torch.autograd.function.FunctionCtx):
            outer = failure.levels[: failure.levels.index(level)]
            engine = next((each for each in reversed(outer) if each.frame.f_code in ENGINE_CALLS), None)
            graph = engine.variables.get("create_graph") if engine is not None else None
            return level if graph is False or graph is None else None
    return None


def _switches(level: Level) -> bool:
    """Whether the function enables gradients in a part of it, or for what follows."""
    calls = (node for each in statements(level.body.node) for node in calls_in(each)) if level.body else ()
    return any(callee(node)[1] in ("set_grad_enabled", "enable_grad") for node in calls)


def _may_train(scene: Scene, level: Level) -> bool:
    """Whether something that it may be computed from requires a gradient."""
    inner = scene.failure.user or level
    return any(
        holds_gradient(each) for each in (*scene.failure.inputs, *level.variables.values(), *inner.variables.values())
    )


def _computing(scene: Scene, level: Level) -> list[ast.stmt]:
    """The statements of that function that compute what is differentiated from what is asked for, the first and the
    last of them; the one that asks, where it computes by itself."""
    statement, body = level.statement, level.body
    receiver = level.receiver if level is scene.failure.user else None
    if statement is None or body is None:
        return []
    made = ancestors(body, receiver, level.line) if receiver else {}
    asked, found = _asked(level, statement), list[ast.stmt]()
    for each in _before(body, statement):
        targets = bound(each)
        if targets & made.keys() and not targets & asked and any(u.name in asked for u in uses(each) if not u.binds):
            found.append(each)
            asked |= targets
    if not found or not _NAME.fullmatch(receiver or ""):
        found.append(statement)
    return found


def _asked(level: Level, statement: ast.stmt) -> set[str]:
    """The names of what the gradient is asked for; else of what requires one."""
    calls = [node for node in calls_in(statement) if is_gradient_call(node)]
    given = next((call.args[1] if len(call.args) > 1 else keyword(call, "inputs") for call in calls), None)
    if given is not None:
        return {use.name for use in uses(given) if not use.binds}
    return {name for name, value in level.variables.items() if holds_gradient(value)}


def _before(body: Body, statement: ast.stmt) -> list[ast.stmt]:
    """What stands before a statement in its own block."""
    within = (block for each in (body.node, *statements(body.node)) for _, block in blocks(each))  # type: ignore[arg-type]
    block = next((block for block in within if statement in block), [statement])
    return block[: block.index(statement)]
