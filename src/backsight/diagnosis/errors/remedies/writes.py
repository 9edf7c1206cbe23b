"""Remedies for what cannot be written into: memory that several entries share, and integers where floats come."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.errors.remedies.tensors import CASTS
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import shaped, shown
from backsight.source import Body, statements_of
from backsight.source.bindings import targets
from backsight.source.body import callee, calls_in, dotted, expressions, statements
from backsight.source.edits import on_line, put
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.files import user_files
from backsight.story.memory import is_tensor, shape_of

_EXPANDING = ("expand", "expand_as", "broadcast_to")


@remedy(r"more than one element of the written-to tensor refers to a single memory location")
def _expanded(found: Refusal, match: Match) -> Remedy | None:
    """What expand() gave is written in place: it has memory for one of its rows alone."""
    name, tensor = next(((text, each) for text, each in found.tensors if _repeats(each)), ("", None))
    if tensor is None:
        return None
    own = f"{name} has the memory of {shaped(_stored(tensor))} for its shape {shaped(shape_of(tensor) or ())}"
    every = list(dict.fromkeys(_expansions(found, name)))
    for body, statement, call in every if len(every) == 1 else ():
        line = rewritten(body, statement, {call: f"{body.text(call)}.clone()"})
        if line:
            at = body.place(statement)
            return Remedy(
                f"Give each entry memory of its own: {on_line(at, line)}.",
                (shown(at, f"repeats without a copy: {own}."),),
                at,
            )
    if name.isidentifier() and found.level.value(name) is tensor:
        copied = f"{name} = {name}.clone()"
        line = f"put `{copied}` above line {found.level.line}{put(copied, 'above', found.level.place)}"
        return Remedy(f"{own}, as expand() leaves it: {line}.")
    return Remedy(f"{own}, as expand() leaves it: use .clone() where {name} is given that tensor.")


def _repeats(tensor: torch.Tensor) -> bool:
    strided = tensor.layout is torch.strided
    return strided and any(step == 0 and n > 1 for step, n in zip(tensor.stride(), tensor.shape, strict=True))


def _stored(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(1 if step == 0 else n for step, n in zip(tensor.stride(), tensor.shape, strict=True))


def _expansions(found: Refusal, name: str) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """The statements that give a name, or an attribute of that name, or its values, what is expanded."""
    attribute = name.removesuffix("]").rpartition(".")[2]
    local = found.level.body if name.isidentifier() else None
    every = ((local, each) for each in statements(local.node)) if local else statements_of(*user_files(found.failure))
    for body, statement in every:
        for target, value, _ in targets(statement):
            held = (dotted(target) or "").removesuffix(".data")
            calls = [each for each in calls_in(statement) if callee(each)[1] in _EXPANDING and _is_in(each, value)]
            if calls and (held == name or (not local and "." in held and held.rpartition(".")[2] == attribute)):
                yield body, statement, calls[-1]


def _is_in(node: ast.expr, value: ast.expr) -> bool:
    """Whether an expression is all of another, or all that a constructor is given: `nn.Parameter(row.expand(4, 3))`."""
    inner = value.args[0] if isinstance(value, ast.Call) and callee(value)[1] == "Parameter" and value.args else value
    return node is inner


@remedy(r"result type (\w+) can't be cast to the desired output type (Byte|Char|Short|Int|Long|Bool)")
def _into_integers(found: Refusal, match: Match) -> Remedy | None:
    """A loss was given labels as integers, or a tensor of integers is changed by floats."""
    body, statement = found.level.body, found.level.statement
    if body is None or statement is None:
        return None
    whole = [(text, each) for text, each in found.tensors if not (each.is_floating_point() or each.is_complex())]
    if isinstance(statement, ast.AugAssign):
        text, into = body.text(statement.target), value_of(found.level, statement.target)
        if not is_tensor(into) or not any(into is each for _, each in whole):
            return None
        return Remedy(
            f"{text} holds {_kind(into)}, and cannot take other numbers in place: make it floating point where it is "
            "created."
        )
    given = found.below[-1].variables if found.below else {}
    target, scores = given.get("target"), given.get("input")
    if not is_tensor(target) or not is_tensor(scores) or scores.dtype not in CASTS:
        return None
    read = [node for node in expressions(statement) if value_of(found.level, node) is target]
    name = body.text(read[0]) if read else next((text for text, each in whole if each is target), "the target")
    cast = f"{simple(name)}.{CASTS[scores.dtype]}()"
    line = rewritten(body, statement, {read[0]: cast}) if len(read) == 1 else ""
    loss = found.below[-1].frame.f_code.co_name
    how = f": {on_line(found.level.place, line)}" if line else ""
    return Remedy(f"{loss}() needs a target in floating point, and {name} holds {_kind(target)}{how}.")


def _kind(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
