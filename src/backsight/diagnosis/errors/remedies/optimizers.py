"""Remedies for what makes an optimizer, a scheduler or their state: arguments that do not go together, other groups."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType
from typing import Any

import torch

from backsight.diagnosis.errors.optimizer_state import made_at
from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy, without_argument
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, assignments, calls_of, only, statement_at, statements_of
from backsight.source.bindings import assigned
from backsight.source.body import callee, calls_in, dotted, expressions, keyword
from backsight.source.edits import OR, Edit, on_line, put_at, sentence, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.handed import handed


@remedy(r"`fused` and `foreach` cannot be")
def _one_implementation(found: Refusal, match: Match) -> Remedy:
    return Remedy(f"Leave out foreach=True{_without(found, 'foreach')}: fused=True is the faster of the two.")


@remedy(r"`fused=True` requires all the params")
def _fused_elsewhere(found: Refusal, match: Match) -> Remedy:
    return Remedy(
        f"Leave out fused=True{_without(found, 'fused')}, {OR}or move the model to a device in floating point before "
        "the optimizer is made."
    )


@remedy(r"fused.* does not support .?differentiable")
def _fused_and_differentiable(found: Refusal, match: Match) -> Remedy:
    one, other = (_without(found, name) for name in ("differentiable", "fused"))
    return Remedy(f"Leave out one of fused=True and differentiable=True{one}{OR}{other}.")


@remedy(r"as a Tensor is not supported for capturable=False")
def _rate_as_a_number(found: Refusal, match: Match) -> Remedy:
    call, body, statement = _call(found, "lr"), found.level.body, found.level.statement
    rate = keyword(call, "lr") if call is not None else None
    new = ""
    if body is not None and statement is not None and rate is not None:
        new = rewritten(body, statement, {rate: f"{simple(body.text(rate))}.item()"})
    number = write(found.level.place, new) if new else ""
    return Remedy(f"Pass a number, lr.item(){number}, {OR}or leave out foreach=True{_without(found, 'foreach')}.")


def _call(found: Refusal, name: str) -> ast.Call | None:
    return next((each for each in calls_in(found.level.statement) if keyword(each, name) is not None), None)


def _without(found: Refusal, name: str) -> Edit | str:
    call, body, statement = _call(found, name), found.level.body, found.level.statement
    new = rewritten(body, statement, {call: without_argument(body, call, name)}) if call and body and statement else ""
    return write(found.level.place, new) if new else ""


@remedy(r"parameter group that doesn't match the size of optimizer's group|different number of parameter groups")
def _state_of_others(found: Refusal, match: Match) -> Remedy | None:
    """The state of an optimizer was saved for other parameters than this one has."""
    below = found.below[-1].variables if found.below else {}
    sizes = [_lengths(below, "saved_groups"), _lengths(below, "groups")]
    if not all(sizes) or found.level.statement is None:
        return None
    built = made_at(found)
    where = f" on line {built.line}" if built is not None else ""
    return Remedy(
        f"It was saved with {_groups(sizes[0])}{_settings(below)}, and this optimizer has {_groups(sizes[1])}. "
        f"To go on with the old state, make the optimizer{where} over the same parameters in the same groups, in the "
        f"same order. {OR}To train other parameters from here, start with a new state: {removed(found.level.place)}.",
        (shown(built, f"makes it with {_groups(sizes[1])}."),) if built is not None else (),
        built,
    )


def _settings(variables: Any) -> str:
    """The settings in which the saved groups differ, which tell them from each other."""
    saved = [each for each in variables["saved_groups"] if isinstance(each, dict)]
    plain = {key: [each.get(key) for each in saved] for key in saved[0]}
    told = [
        f"{key} {listed([*map(str, values)], 6)}"
        for key, values in plain.items()
        if all(type(each) in (int, float) for each in values) and len(set(values)) > 1
    ]
    return f" ({'; '.join(told)})" if told else ""


def _lengths(variables: Any, name: str) -> list[int]:
    groups = variables.get(name)
    if not isinstance(groups, list):
        return []
    return [len(each["params"]) for each in groups if isinstance(each, dict) and isinstance(each.get("params"), list)]


def _groups(sizes: list[int]) -> str:
    if len(sizes) == 1:
        return counted(sizes[0], "parameter")
    return f"{len(sizes)} groups of {listed([*map(str, sizes)], 6)} parameters"


@remedy(r"param 'initial_lr' is not specified in param_groups\[\d+\] when resuming")
def _resumed(found: Refusal, match: Match) -> Remedy | None:
    """Say where `last_epoch` comes from, and what it is for a training that begins."""
    variables = found.below[-1].variables
    optimizer, epoch = variables.get("optimizer"), variables.get("last_epoch")
    if not isinstance(optimizer, torch.optim.Optimizer) or type(epoch) is not int:
        return None
    known = handed(found.failure, optimizer)
    name = known.name if known is not None else names_of(found.failure, [optimizer])[0] or "the optimizer"
    argument = _argument(found, "last_epoch")
    lines: list[Fact] = []
    place, begun, begins = None, False, "leave last_epoch at its default, -1"
    if argument is not None:
        level, value = argument
        place, body = level.place, level.body
        text = body.text(value) if body else ""
        shows = text if text == str(epoch) else f"{text}, which is {epoch}"
        here = place == found.level.place
        lines.append(f"last_epoch is {shows}." if here else shown(place, f"passes last_epoch={shows}."))
        first = f"{text} - 1" if epoch == 0 and text != "0" else "-1"  # a count of epochs that begins at 0
        passing = rewritten(body, level.statement, {value: first}) if body and level.statement else ""
        if (decided := _decided(level, text, epoch)) is not None:
            (place, new), begun = decided, True
            lines.append(shown(place, f"sets {text}."))
            begins += f": `{new}` on line {place.line}{write(place, new)}, if nothing else counts from it"
        elif passing:
            begins = (
                f"pass last_epoch={first}{write(place, passing)}"
                if first != "-1"
                else f"{begins}{write(place, passing)}"
            )
    lines.append(f"With last_epoch={epoch} it resumes, from the initial_lr of each group; {name} has none.")
    resumes = f"load the state of {name}, saved while it had a scheduler, before making this one"
    if (unsaved := _unsaved(found, name)) is not None:
        lines.append(shown(unsaved[0], f"keeps no state of {name}.", "read"))
        resumes = unsaved[1]
    loads = any(callee(call)[1] == "load_state_dict" for _, _, call in calls_of(*user_files(found.failure)))
    if "load_state_dict" in resumes or (loads and not begun and epoch > 0):  # the program does resume
        return Remedy(f"{sentence(resumes)}.", tuple(lines), place)
    return Remedy(f"To begin a training, {begins}. {OR}To resume one, {resumes}.", tuple(lines), place)


def _unsaved(found: Refusal, name: str) -> tuple[Place, str] | None:
    """Where the program keeps a state, `{"model": self.model.state_dict()}`, but the optimizer's, and how it does."""
    owner, _, attribute = name.rpartition(".")
    files = user_files(found.failure)
    states = [dotted(callee(call)[0]) or "" for _, _, call in calls_of(*files) if callee(call)[1] == "state_dict"]
    gathering = only(
        (body, statement, node, dict(_states_in(node, owner)))
        for body, statement in statements_of(*files)
        for node in expressions(statement)
        if isinstance(node, ast.Dict) and any(True for _ in _states_in(node, owner))
    )
    if gathering is None or any(each.rpartition(".")[2] == attribute for each in states):
        return None
    body, statement, node, known = gathering
    place, kept = body.place(statement), f"save the state of {name} as well, and load it before making this one"
    loading = only(
        (at.place(each), at.text(call.args[0].value))
        for at, each, call in calls_of(*files)
        if callee(call)[1] == "load_state_dict" and call.args and isinstance(call.args[0], ast.Subscript)
        if isinstance(call.args[0].slice, ast.Constant)
        if known.get(str(call.args[0].slice.value)) == dotted(callee(call)[0])
    )
    text = body.text(node)
    whole = f'{text[:-1].rstrip(", ")}, "{attribute}": {name}.state_dict()}}'
    new = rewritten(body, statement, {node: whole}) if "…" not in text and f'"{attribute}"' not in text else ""
    if loading is None or not new:
        return place, kept
    at, loaded = loading
    load = f'{name}.load_state_dict({loaded}["{attribute}"])'
    level = found.level
    made = assignments(level.body, name, before=level.line) if at.file == level.place.file else ()
    at = max(at, *made[-1:], key=lambda place: place.line) if made else at  # the state goes into what is there then
    return place, (
        f"save the state of {name} as well: {on_line(place, new)}, and "
        f"{put_at(load, 'below', at)}, so that it is loaded before this scheduler is made"
    )


def _states_in(node: ast.Dict, owner: str) -> Iterator[tuple[str, str]]:
    """The keys of a dictionary under which it has states of what the same object owns, each with whose state it is."""
    for key, value in zip(node.keys, node.values, strict=True):
        receiver, method = callee(value) if isinstance(value, ast.Call) else (None, "")
        whose = dotted(receiver) or ""
        if method == "state_dict" and isinstance(key, ast.Constant) and whose.rpartition(".")[0] == owner:
            yield str(key.value), whose


def _argument(found: Refusal, name: str) -> tuple[Level, ast.expr] | None:
    """The expression that is passed for a parameter, by the outermost function that only hands it on, and that."""
    result: tuple[Level, ast.expr] | None = None
    code = found.below[0].frame.f_code
    for level in found.failure.users:
        value = _passed(level.statement, code, name)
        if value is None:
            break
        result, code = (level, value), level.frame.f_code
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


def _decided(level: Level, name: str, value: int) -> tuple[Place, str] | None:
    """The only statement of the function that sets the variable to this number, and the same with -1."""
    body: Body | None = level.body
    return only(
        (body.place(statement), rewritten(body, statement, {given: "-1"}))
        for place in assignments(body, name, before=level.line)
        if body is not None and (statement := statement_at(body, *place.position)) is not None
        for target, given in assigned(statement)
        if body.text(target) == name and isinstance(given, ast.Constant) and given.value == value
    )
