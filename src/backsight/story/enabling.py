"""Derivatives that are taken with gradients disabled: where autograd itself does that, and what is to be enabled."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from backsight.source import Body, receiver_of_backward
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, names_read, uses
from backsight.source.body import block_of, callee, calls_in, is_compound, keyword, statements
from backsight.source.edits import on_line, wrap
from backsight.source.imports import is_gradient_call
from backsight.story.failure import Failure, Level
from backsight.story.modes import nearest_at
from backsight.tape import ENGINE_CALLS

_NAME = re.compile(r"[\w.]+")


def run_by_engine(failure: Failure) -> Level | None:
    """Return the backward of a custom Function that ran without gradients, as autograd disables them there; None where
    its text may enable them, and with create_graph=True."""
    for level in failure.users:
        if level.body is None or nearest_at(level.body, level.line) is not None or switches(level.body):
            return None
        if level.runs_custom("backward"):
            outer = failure.levels[: failure.levels.index(level)]
            engine = next((each for each in reversed(outer) if each.frame.f_code in ENGINE_CALLS), None)
            return None if engine is not None and engine.variables.get("create_graph") else level
    return None


def switches(body: Body) -> bool:
    """Whether a function enables gradients in a part of it, or for what follows."""
    calls = (node for each in statements(body.node) for node in calls_in(each))
    return any(callee(node)[1] in ("set_grad_enabled", "enable_grad") for node in calls)


def enabled(lines: list[ast.stmt], body: Body) -> str:
    """Say how statements that follow each other run with gradients enabled, without a full stop."""
    first, last = lines[0], lines[-1]
    text, end = body.text(first), last.end_lineno or last.lineno
    if first.lineno == end and not is_compound(first) and "…" not in text:
        return on_line(body.place(first), f"with torch.enable_grad(): {text}")
    where, under = (
        f"line {end}" if first.lineno == end else f"lines {first.lineno} to {end}",
        "with torch.enable_grad():",
    )
    inside = [body.place(each) for each in statements(body.node) if first.lineno <= each.lineno <= end]
    return f"put {where} inside a `{under}` block{wrap(inside, under)}"


def computing(body: Body, statement: ast.stmt, held: Collection[str] = ()) -> list[ast.stmt]:
    """Return the statements that compute what one differentiates from what it asks for, the first and the last of
    them, and itself where it computes, too; `held`: what it may ask for, where it does not say."""
    receiver = receiver_of_backward(body, statement.lineno, statement.col_offset)
    made, asked = ancestors(body, receiver, statement.lineno) if receiver else {}, _asked(statement) or set(held)
    found = list[ast.stmt]()
    block = block_of(body, statement)
    for each in block[: block.index(statement)] if block else ():
        targets = bound(each)
        if targets & made.keys() and not targets & asked and any(u.name in asked for u in uses(each) if not u.binds):
            found.append(each)
            asked |= targets
    return found if found and _NAME.fullmatch(receiver or "") else [*found, statement]


def _asked(statement: ast.stmt) -> set[str]:
    """The names of what a statement asks the gradient for."""
    calls = [node for node in calls_in(statement) if is_gradient_call(node)]
    given = next((call.args[1] if len(call.args) > 1 else keyword(call, "inputs") for call in calls), None)
    return {*names_read(given)}
