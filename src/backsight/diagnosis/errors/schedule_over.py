"""BS234: a schedule of the learning rate, made for a number of steps, is stepped once more."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.amending import is_known
from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import conditions_around, constructions, ending, loops_around, method_of
from backsight.diagnosis.wording import counted, failing, if_known, shown
from backsight.findings.evidence import Evidence
from backsight.source import Body, Place, assignments, calls_of, function_at, only, read_at
from backsight.source.bindings import stored_arguments
from backsight.source.body import callee, calls_in, dotted, keyword
from backsight.source.edits import on_line_with
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, method
from backsight.story.files import user_files
from backsight.story.memory import is_tensor, shape_of

_COUNT = "Make it for as many steps as the training takes, one for each time that step() is called on it"


class _Times(NamedTuple):
    """How often a loop runs: in code, and as a number where that is known."""

    code: str
    number: int | None


class _Home(NamedTuple):
    """Where the schedule is made, and a level whose variables have what was at hand there: of the function itself, or
    of a method of the object in whose method it was made."""

    made: Place
    body: Body
    level: Level

    @property
    def is_running(self) -> bool:
        return self.level.body is not None and self.level.body.node is self.body.node

    def value(self, node: ast.expr | None) -> object:
        """What an expression was there, if its names still tell."""
        if self.is_running:
            return value_of(self.level, node)
        kept = {parameter: attribute for attribute, parameter in stored_arguments(self.body)}
        if (name := dotted(node)) in kept:
            return self.level.value(f"self.{kept[name]}")
        return (
            value_of(self.level, node) if isinstance(node, ast.Constant) or (name or "").startswith("self.") else None
        )

    def has(self, name: str) -> bool:
        """Whether a name is bound there by then."""
        root = name if name.startswith("self.") else name.partition(".")[0]
        if assignments(self.body, root):
            return bool(assignments(self.body, root, before=self.made.line))
        return "." not in root and is_known(root, self.made)


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
    made = only(constructions(level.frame, scheduler, name))
    home = _home(failure, made, name)
    asked = _asked(home)
    loaded = only(_calls_of(failure, name, "load_state_dict")) if asked != total else None
    if loaded is not None:
        return _of_a_state(title, failed, made, loaded, total, asked)
    others = [each for each in steps if each != level.place]
    times = _times(failure, home) if home is not None and not others else None
    numbers = [each.number for each in times or ()]
    product = math.prod(each or 0 for each in numbers)
    new = _made_for(home, times) if home is not None and times and (product > total or not all(numbers)) else ""
    code = " * ".join(each.code for each in times or ())
    as_code = "" if code == str(product) else f": {code}"
    sure = bool(new) or product > total
    runs = f"The loops around it step it {product} times in all{as_code}." if product > total else None
    return explanation(
        title,
        (
            if_known(made, f"makes it for {counted(total, 'step')}."),
            *(shown(each, "steps it as well.", "read") for each in others),
            *failed,
            runs,
        ),
        f"{_COUNT}{f': {new}' if new else ''}.",
        source=made or failure.source,
        exact=sure,
    )


def _scheduler(failure: Failure) -> object:
    """The schedule in one of whose methods the error came."""
    held = (each.variables.get("self") for each in reversed(failure.levels) if each not in failure.users)
    return next((each for each in held if issubclass(type(each), torch.optim.lr_scheduler.LRScheduler)), None)


def _calls_of(failure: Failure, name: str, method: str) -> Iterator[Place]:
    for body, statement, call in calls_of(*user_files(failure)):
        if method_of(call) == (ending(name) or name, method):
            yield body.place(statement)


def _home(failure: Failure, made: Place | None, name: str) -> _Home | None:
    body = read_at(made)[0] if made is not None else None
    if body is None or made is None:
        return None
    levels = [_Home(made, body, each) for each in failure.users if each.body is not None]
    if running := [each for each in levels if each.is_running]:
        return running[0]
    mine = [each for each in levels if name.startswith("self.") and _is_method_of(each.level.value("self"), body)]
    return mine[-1] if mine else None


def _is_method_of(held: object, body: Body) -> bool:
    function = method(type(held), body.name)
    found = function_at(function.__code__) if function is not None else None
    return found is not None and found.node is body.node


def _asked(home: _Home | None) -> int | None:
    """For how many steps the schedule was made, as far as its arguments tell."""
    if home is None:
        return None
    total, epochs, batches = map(home.value, _lengths(home))
    if type(total) is int:
        return total
    return epochs * batches if type(epochs) is int and type(batches) is int else None


def _lengths(home: _Home) -> tuple[ast.expr | None, ast.expr | None, ast.expr | None]:
    """What a schedule is given as total_steps, epochs and steps_per_epoch."""
    call = _call(home)
    if call is None:
        return None, None, None
    total = keyword(call, "total_steps") or (call.args[2] if len(call.args) > 2 else None)
    return total, keyword(call, "epochs"), keyword(call, "steps_per_epoch")


def _call(home: _Home) -> ast.Call | None:
    return only(each for each in calls_in(read_at(home.made)[1]) if callee(each)[1] == "OneCycleLR")


def _of_a_state(
    title: str, failed: Sequence[Evidence], made: Place | None, loaded: Place, total: int, asked: int | None
) -> Finding:
    """A state brings the length of the run that saved it, whatever the new schedule was made for."""
    return explanation(
        title,
        (
            if_known(made, f"makes it for {counted(asked, 'step')}." if asked else "makes it."),
            shown(
                loaded,
                f"loads a state, which also has the {counted(total, 'step')} of the run that saved it.",
                "seen" if asked else "read",
            ),
            *failed,
        ),
        "A loaded schedule ends where the saved one was to end. Train only the steps that are left of it; to train "
        "longer, make a new schedule over the further steps, and leave its old state alone.",
        source=loaded,
        exact=bool(asked),
    )


def _times(failure: Failure, home: _Home) -> list[_Times] | None:
    """How often each loop runs around the failing statement, the outermost first, in words of what makes the schedule;
    None where one cannot be told."""
    found: list[_Times] = []
    for level in reversed(failure.users[: failure.users.index(home.level) + 1]):
        if level.body is None:
            return None
        loops = loops_around(level.body, level.line)
        if home.is_running and level is home.level:
            loops = [each for each in loops if each.lineno > home.made.line]
        first = loops[0].lineno if loops else level.line
        if any(each.lineno > first or not loops for each in conditions_around(level.body, level.line)):
            return None
        if any(isinstance(node, _SKIPS) and node.lineno < level.line for loop in loops for node in ast.walk(loop)):
            return None
        for loop in loops:
            times = _of(level, loop.iter, home) if isinstance(loop, ast.For) else None
            if times is None:
                return None
            found.append(times)
    return found


_SKIPS = (ast.Continue, ast.Break, ast.Return)
"""What may leave out the rest of a round."""


def _of(level: Level, node: ast.expr, home: _Home) -> _Times | None:
    """How often a loop over this runs: `range(epochs)`, `loader`, `enumerate(tqdm(loader))`."""
    if isinstance(node, ast.Call):
        name = callee(node)[1]
        if name in ("enumerate", "tqdm") and node.args:
            return _of(level, node.args[0], home)
        if name == "range" and len(node.args) == 1 and (code := _called_there(level, node.args[0], home)):
            number = value_of(level, node.args[0])
            return _Times(code, number if type(number) is int else None)
        return None
    value = value_of(level, node)
    if value is None or not hasattr(type(value), "__len__") or not (code := _called_there(level, node, home)):
        return None
    shape = shape_of(value) if is_tensor(value) else None
    number = len(value) if type(value) in (list, tuple, range) else shape[0] if shape else None  # type: ignore[arg-type]
    return _Times(f"len({code})", number)


def _called_there(level: Level, node: ast.expr, home: _Home) -> str:
    """What stands for the same value where the schedule is made."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    name, value = dotted(node) or "", value_of(level, node)
    if level is home.level or value_of(home.level, node) is value:
        return name if name and (home.is_running or name.startswith("self.")) and home.has(name) else ""
    held = home.level.variables.items() if home.is_running and value is not None else ()
    return next((other for other, each in held if each is value and home.has(other)), "")


def _made_for(home: _Home, times: list[_Times]) -> str:
    """The statement that makes the schedule, for as many steps as the loops run."""
    (body, statement), (total, epochs, batches) = read_at(home.made), _lengths(home)
    code = [each.code for each in times]
    changes = {}
    if total is not None:
        changes = {total: " * ".join(code)}
    elif epochs is not None and batches is not None and len(code) == 2:
        changes = {epochs: code[0], batches: code[1]}
    changed = {node: new for node, new in changes.items() if home.body.text(node) != new}
    return on_line_with(body, statement, changed) if changed else ""
