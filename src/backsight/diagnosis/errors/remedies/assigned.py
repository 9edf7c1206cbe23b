"""A parameter is given a tensor: a module takes its values, or another parameter, and what is computed from it by
another name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import described, listed
from backsight.source.bindings import parameters_of, uses
from backsight.source.body import callee, calls_in, dotted, expressions, functions, statements
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import is_module, is_tensor, needs_gradient, shape_of
from backsight.tape import registered

_MOST = 4


class _Copy(NamedTuple):
    """A statement that assigns to a parameter, as one that copies the values."""

    line: int
    value: str
    text: str
    sure: bool


@remedy(r"cannot assign '.*' (?:object )?as parameter '\w+'")
def _of_plain_values(found: Refusal, match: Match) -> Remedy | None:
    """The statement as one that copies, in the words of the program, and what follows it that fails alike."""
    inside = found.below[-1].variables if found.below else {}
    module, name, value = (inside.get(each) for each in ("self", "name", "value"))
    parameter = registered(module, "_parameters").get(name) if is_module(module) and isinstance(name, str) else None
    if not is_module(module) or not is_tensor(parameter) or not is_tensor(value) or needs_gradient(value):
        return None
    copies = list(_copies(found, module, value))
    failing = found.level.statement
    if failing is None or not copies or copies[0].line != failing.lineno or shape_of(parameter) != shape_of(value):
        return None
    first, *others = copies
    also = [f"`{each.text}` on line {each.line}" for each in others if each.sure]
    maybe = [str(each.line) for each in others if not each.sure]
    fix = f"Copy the values into the parameter: write {listed([f'`{first.text}` on line {first.line}', *also], _MOST)}."
    if maybe:
        lines = f"line{'s' * (len(maybe) > 1)} {listed(maybe, _MOST)}"
        fix += f" The same goes for {lines}, if what is assigned there is no parameter either."
    told = any(name == first.value for name, _ in found.tensors)
    return Remedy(fix, () if told else (f"{first.value} is a {described(value)} without a graph, and no parameter.",))


@remedy(r"cannot assign '.*' (?:object )?as parameter '\w+'")
def _computed_from_itself(found: Refusal, match: Match) -> Remedy | None:
    """The statements that are to give the result a name of its own, and to read it by that name."""
    level, failing = found.level, found.level.statement
    body, value = level.body, found.below[-1].variables.get("value") if found.below else None
    target = dotted(failing.targets[0]) if isinstance(failing, ast.Assign) and len(failing.targets) == 1 else None
    if body is None or not isinstance(failing, ast.Assign) or target is None or not needs_gradient(value):
        return None
    if level.function.rpartition(".")[2] == "__init__":
        return None
    if not any(dotted(node) == target for node in ast.walk(failing.value)):
        return None
    after = [each for each in statements(body.node) if each.lineno > failing.lineno]
    taken = {use.name for each in statements(body.node) for use in uses(each)} | parameters_of(body.node)
    attribute = target.rpartition(".")[2]
    name = next(each for each in (attribute, f"{attribute}_now", f"{attribute}_of_this_pass") if each not in taken)
    new: dict[ast.stmt, str] = {failing: rewritten(body, failing, {failing.targets[0]: name})}
    for each in after:
        if read := [node for node in expressions(each) if dotted(node) == target]:
            new[each] = rewritten(body, each, dict.fromkeys(read, name))
    called = {callee(call)[1] for each in after for call in calls_in(each) if dotted(callee(call)[0]) == "self"}
    others = {each.name: list(map(uses, statements(each.node))) for each in functions(body.file) if each.name in called}
    given = [f"{at}()" for at, read in others.items() if any(use.name == target for each in read for use in each)]
    if len(new) == 1 and not given:
        return None  # what reads it is elsewhere, a forward that is to compute with the parameter
    texts = {each.lineno: f"`{text}`" if text else name for each, text in new.items()}
    written = listed([f"{text} on line {line}" for line, text in texts.items()], _MOST)
    shared = f", and pass {name} to {listed(given)}, which computes with it" if given else ""
    return Remedy(
        f"Give the result a name of its own, and leave {target} as it is, to be trained: write {written}{shared}."
    )


def _copies(found: Refusal, module: torch.nn.Module, value: torch.Tensor) -> Iterator[_Copy]:
    """The failing statement, and those after it that assign to a parameter: surely alike where their value is known to
    have no graph, or written in the same way."""
    level, failing = found.level, found.level.statement
    for each in statements(level.body.node) if level.body is not None else ():
        if not isinstance(each, ast.Assign) or not isinstance(failing, ast.Assign) or each.lineno < failing.lineno:
            continue
        target, body = each.targets[0], level.body
        known = value if each is failing else value_of(level, each.value)
        plain = is_tensor(known) and not needs_gradient(known)
        if (
            len(each.targets) > 1
            or not isinstance(target, ast.Attribute)
            or not isinstance(_held(level, target, failing, module), torch.nn.Parameter)
            or isinstance(known, torch.nn.Parameter)
            or (is_tensor(known) and not plain)
            or body is None
        ):
            continue
        alike = ast.dump(each.value) == ast.dump(failing.value)
        assigned = body.text(each.value)
        text = f"with torch.no_grad(): {body.text(target)}.copy_({assigned})"
        computed = isinstance(each.value, ast.BinOp | ast.UnaryOp)  # never a parameter
        yield _Copy(each.lineno, assigned, text, plain or alike or computed)


def _held(level: Level, target: ast.Attribute, failing: ast.Assign, module: torch.nn.Module) -> object:
    """What an attribute holds: of the module that refused its value, however the statement comes to it."""
    refused = failing.targets[0]
    if isinstance(refused, ast.Attribute) and ast.dump(target.value) == ast.dump(refused.value):
        return registered(module, "_parameters").get(target.attr)
    return value_of(level, target)
