"""The tensors that a custom Function has saved, read after its backward has run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Certainty
from backsight.naming.frames import is_function
from backsight.source import Body, Place, calls_of
from backsight.source.body import callee, expressions
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.tape import ENGINE_CALLS


def freed_context(failure: Failure) -> Finding | None:
    """Explain an error of `ctx.saved_tensors` outside of any backward; None if it was not that which failed."""
    level = failure.user
    read = _read(level) if level else None
    if level is None or level.body is None or read is None:
        return None
    if any(each.frame.f_code in ENGINE_CALLS for each in failure.levels):
        return None
    name = level.body.text(read)
    saving = list(_saving(failure))
    ran = next((each.place for each in failure.users[1:]), None) if is_function(level.frame) else None
    sure: Certainty | None = None if len(saving) == 1 else "read"
    lines = [shown(place, "saves them until backward has used them.", sure) for _, place, _ in saving[:1]]
    return explanation(
        f"{name} is read after backward() has freed it.",
        (
            *lines,
            shown(level.place, "reads it."),
            *([shown(ran, "runs that after backward().")] if ran else []),
        ),
        _fix(level, read, saving),
        source=str(level.place),
        exact=sure is None,
    )


def _read(level: Level) -> ast.expr | None:
    found = (n for n in expressions(level.statement) if isinstance(n, ast.Attribute) and n.attr == "saved_tensors")
    return next(found, None)


def _saving(failure: Failure) -> Iterator[tuple[Body, Place, ast.Call]]:
    """The statements that save for backward."""
    for body, each, call in calls_of(*user_files(failure)):
        if callee(call)[1] == "save_for_backward":
            yield body, body.place(each), call


def _fix(level: Level, read: ast.expr, saving: list[tuple[Body, Place, ast.Call]]) -> str:
    if len(saving) != 1 or level.body is None or level.statement is None or not isinstance(read, ast.Attribute):
        return "Read it before backward(), or keep copies of what is needed, x.detach(), when it is saved."
    body, place, call = saving[0]
    context = body.text(call.func).rpartition(".")[0]
    kept = ", ".join(f"{body.text(each)}.detach()" for each in call.args)
    held = level.body.text(read.value)
    line = rewritten(level.body, level.statement, {read: f"{held}.kept"})
    return (
        f"Read it before backward(). Or keep a reference: below line {place.line}, put `{context}.kept = ({kept},)`, "
        f"and on line {level.statement.lineno} write `{line}`. That keeps the memory for as long as {held} lives."
    )
