"""BS200 of gradient release: its error whole, which says what to do, and the lines of the program that this changes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import NamedTuple

from backsight.diagnosis.evidence.refused import Refusal
from backsight.naming.plain import class_dict
from backsight.source import Place, backward_calls, statements_of
from backsight.source.body import LOOPS, Body, callee, calls_in, dotted, is_shared, keyword, statements
from backsight.source.edits import marks_of, put, without_marks, write
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.fixes import removed

_CLIPS = "clip_grad_norm_"


class _Made(NamedTuple):
    """The statement that makes a release, and what the program calls it."""

    name: str
    place: Place | None


def is_own(error: BaseException) -> bool:
    """Whether backsight itself raised an error: its class is one of ours."""
    return str(class_dict(type(error)).get("__module__")).partition(".")[0] == "backsight"


def released(found: Refusal) -> str:
    """Return what to change where an error of gradient release came, by the program's text; empty for any other."""
    if _is_a("GradientGone", found.failure.error):
        call = next((each for each in calls_in(found.level.statement) if callee(each)[1] == _CLIPS), None)
        return _clipped_before(found, call) if call is not None else ""
    if _is_a("AlreadyStepped", found.failure.error) and any(_accumulates(level) for level in found.failure.users):
        return f"Run every backward of a step but the last within `with {_made(found).name}.accumulate():`."
    return ""


def _clipped_before(found: Refusal, call: ast.Call) -> str:
    """Clip in the backward pass, as release does, in place of the call that comes after it."""
    name, place = _made(found)
    limit = keyword(call, "max_norm") or (call.args[1] if len(call.args) > 1 else None)
    body, statement = found.level.body, found.level.statement
    if body is None or statement is None or limit is None:
        return f"Call {name}.clip(max_norm) once before the training, in place of {_CLIPS}."
    order = keyword(call, "norm_type") or (call.args[2] if len(call.args) > 2 else None)
    given = ", ".join([body.text(limit), *([f"norm_type={body.text(order)}"] if order is not None else [])])
    clips, instead = f"{name}.clip({given})", _instead(body, statement, call, name)
    if place is not None and place.file == body.file and isinstance(limit, ast.Constant):
        return f"Call {clips} once after line {place.last}{put(clips, 'below', place)}, {instead}."
    return f"Call {clips} once before the training, {without_marks(instead)}."


def _instead(body: Body, statement: ast.stmt, call: ast.Call, name: str) -> str:
    """What becomes of the line that clips: nothing, or the norm that the program goes on with."""
    line = statement.lineno
    if not (isinstance(statement, ast.Expr) and statement.value is call):
        new = rewritten(body, statement, {call: f"{name}.grad_norm()"})
        return f"and write line {line} as `{new}`{write(body.place(statement), new)}"
    gone = marks_of(removed(body.place(statement)))
    if is_shared(body, line):
        return f"and delete `{body.text(call)}` from line {line}{gone}"
    last = statement.end_lineno or line
    return f"and delete line {line}{gone}" if last == line else f"and delete lines {line} to {last}{gone}"


def _accumulates(level: Level) -> bool:
    """Whether a level stands in a loop that runs backward and takes no step: that over the parts of a batch."""
    body = level.body
    for loop in (each for each in statements(body) if isinstance(each, LOOPS)):
        if loop.lineno < level.line <= (loop.end_lineno or loop.lineno):
            inside = [call for each in ast.walk(loop) if isinstance(each, ast.stmt) for call in calls_in(each)]
            runs = any(loop.lineno <= each.line <= (loop.end_lineno or 0) for each in backward_calls(body))
            if runs and not any(callee(each)[1] == "step" for each in inside):
                return True
    return False


def _made(found: Refusal) -> _Made:
    """Return the release that the program makes; plainly `release` where it makes several, or the text has none."""
    every = dict.fromkeys(_makings(found))
    return next(iter(every)) if len(every) == 1 else _Made("release", None)


def _makings(found: Refusal) -> Iterator[_Made]:
    """Yield the assignments of what `release(...)` returns."""
    for body, each in statements_of(*user_files(found.failure)):
        name, call = (dotted(each.targets[0]), each.value) if isinstance(each, ast.Assign) else (None, None)
        if name and isinstance(call, ast.Call) and callee(call)[1] == "release" and call.args:
            values = [value for level in found.failure.users if (value := level.value(name)) is not None]
            if not values or any(_is_a("Release", value) for value in values):
                yield _Made(name, body.place(each))


def _is_a(name: str, value: object) -> bool:
    """Whether something is of a class that gradient release offers; not, if nothing has imported that."""
    room = sys.modules.get("backsight.gradient_release")
    return room is not None and isinstance(value, getattr(room, name))
