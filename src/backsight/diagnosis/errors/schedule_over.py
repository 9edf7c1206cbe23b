"""BS234: a schedule of the learning rate, made for a number of steps, is stepped once more."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from backsight.diagnosis.amending import is_known
from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import conditions_around, constructions, ending, loops_around, method_of
from backsight.diagnosis.wording import counted, failing, if_known, shown
from backsight.source import Body, Place, calls_of, only, read_at
from backsight.source.body import callee, calls_in, dotted, keyword
from backsight.source.edits import on_line_with
from backsight.source.rewriting import simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.memory import is_tensor, shape_of

_COUNT = "Make it for as many steps as the training takes, one for each time that step() is called on it"


class _Times(NamedTuple):
    """How often a loop runs: in code, and as a number where that is known."""

    code: str
    number: int | None


@explains("BS234", r"Tried to step (?P<tried>\d+) times\. The specified number of total steps is (?P<total>\d+)")
def schedule_over(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the schedule and what made it, and say how often the loops step it."""
    total, level = int(match["total"]), failure.user
    scheduler = _scheduler(failure)
    name = names_of(failure, [scheduler])[0] if scheduler is not None else ""
    steps = [*_calls_of(failure, name, "step")] if name else []
    if level is None or level.place not in steps:
        return unlocated(
            failure,
            f"The schedule of the learning rate was made for {counted(total, 'step')}, and is stepped once more.",
            "leads to it.",
            f"{_COUNT}.",
        )
    title = f"{name} is stepped once more than the {counted(total, 'step')} that it was made for."
    failed = failing(failure, "steps it once more.")
    made = only(constructions(level.frame, scheduler, name))  # type: ignore[arg-type]  # any object that is made
    if (loaded := only(_calls_of(failure, name, "load_state_dict"))) is not None:
        return _of_a_state(title, failed, made, loaded, total)
    others = [each for each in steps if each != level.place]
    times = _times(failure, made) if made is not None and not others else None
    new = _made_for(made, times) if made is not None and times is not None else ""
    numbers = [each.number for each in times or ()]
    product = math.prod(each or 0 for each in numbers)
    sure = bool(times) and (product > total if all(numbers) else bool(new))
    code = " * ".join(each.code for each in times or ())
    as_code = "" if code == str(product) else f": {code}"
    runs = f"The loops around it step it {product} times in all{as_code}." if sure and all(numbers) else None
    return explanation(
        title,
        (
            if_known(made, f"makes it for {counted(total, 'step')}."),
            *(shown(each, "steps it as well.", "read") for each in others),
            *failed,
            runs,
        ),
        f"{_COUNT}{f': {new}' if new and sure else ''}.",
        source=made or failure.source,
        exact=sure,
    )


def _scheduler(failure: Failure) -> object:
    """The schedule in one of whose methods the error came."""
    held = (each.variables.get("self") for each in reversed(failure.levels) if each not in failure.users)
    return next((each for each in held if isinstance(each, torch.optim.lr_scheduler.LRScheduler)), None)


def _calls_of(failure: Failure, name: str, method: str) -> Iterator[Place]:
    for body, statement, call in calls_of(*user_files(failure)):
        if method_of(call) == (ending(name) or name, method):
            yield body.place(statement)


def _of_a_state(title: str, failed: tuple[object, ...], made: Place | None, loaded: Place, total: int) -> Finding:
    """A state brings the length of the run that saved it, whatever the new schedule was made for."""
    return explanation(
        title,
        (
            if_known(made, "makes it."),
            shown(loaded, f"loads a state, which also has the {counted(total, 'step')} of the run that saved it."),
            *failed,  # type: ignore[arg-type]
        ),
        "A loaded schedule ends where the saved one was to end. Train only the steps that are left of it; to train "
        "longer, make a new schedule over the further steps, and leave its old state alone.",
        source=loaded,
    )


def _times(failure: Failure, made: Place) -> list[_Times] | None:
    """How often each loop runs around the failing statement, the outermost first, in words of what makes the schedule;
    None where one cannot be told."""
    home = next((each for each in failure.users if each.body is not None and _is_in(made, each)), None)
    if home is None:
        return None
    found: list[_Times] = []
    for level in reversed(failure.users[: failure.users.index(home) + 1]):
        if level.body is None:
            return None
        loops = [each for each in loops_around(level.body, level.line) if level is not home or each.lineno > made.line]
        first = loops[0].lineno if loops else level.line
        if any(each.lineno > first or not loops for each in conditions_around(level.body, level.line)):
            return None
        for loop in loops:
            times = _of(level, loop.iter, home) if isinstance(loop, ast.For | ast.AsyncFor) else None
            if times is None or not is_known(times.code, made):
                return None
            found.append(times)
    return found


def _is_in(place: Place, level: Level) -> bool:
    body, _ = read_at(place)
    return body is not None and level.body is not None and body.node is level.body.node


def _of(level: Level, node: ast.expr, home: Level) -> _Times | None:
    """How often a loop over this runs: `range(epochs)`, `loader`, `enumerate(tqdm(loader))`."""
    if isinstance(node, ast.Call):
        name = callee(node)[1]
        if name in ("enumerate", "tqdm") and node.args:
            return _of(level, node.args[0], home)
        if name == "range" and len(node.args) == 1 and (code := _called_at(level, node.args[0], home)):
            number = value_of(level, node.args[0])
            return _Times(code, number if type(number) is int else None)
        return None
    value = value_of(level, node)
    if value is None or not hasattr(type(value), "__len__") or not (code := _called_at(level, node, home)):
        return None
    shape = shape_of(value) if is_tensor(value) else None
    number = len(value) if type(value) in (list, tuple, range) else shape[0] if shape else None  # type: ignore[arg-type]
    return _Times(f"len({code})", number)


def _called_at(level: Level, node: ast.expr, home: Level) -> str:
    """What stands for the same value in the function that makes the schedule."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if level is home:
        return simple(level.body.text(node)) if level.body is not None and dotted(node) else ""
    value = value_of(level, node)
    return next((name for name, held in home.variables.items() if held is value), "") if value is not None else ""


def _made_for(made: Place, times: list[_Times]) -> str:
    """The statement that makes the schedule, for as many steps as the loops run."""
    body, statement = read_at(made)
    call = only(each for each in calls_in(statement) if callee(each)[1] == "OneCycleLR")
    if body is None or call is None:
        return ""
    total = keyword(call, "total_steps") or (call.args[2] if len(call.args) > 2 else None)
    epochs, batches = keyword(call, "epochs"), keyword(call, "steps_per_epoch")
    code = [each.code for each in times]
    if total is not None:
        return _unless_same(body, statement, {total: " * ".join(code)})
    if epochs is not None and batches is not None and len(code) == 2:
        return _unless_same(body, statement, {epochs: code[0], batches: code[1]})
    return ""


def _unless_same(body: Body, statement: ast.stmt | None, changes: dict[ast.expr, str]) -> str:
    changed = {node: new for node, new in changes.items() if body.text(node) != new}
    return on_line_with(body, statement, changed) if changed else ""
