"""Remedies for what is asked for an attribute that another has: a tensor for what modules and optimizers do,
`w.zero_grad()`, a module for what an optimizer does; and for a misspelled name of a tensor's."""

from __future__ import annotations

import ast
import difflib

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, objects_held, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import listed, shown
from backsight.naming.plain import class_dict, mro
from backsight.source import Body, Place, only
from backsight.source.bindings import assigned
from backsight.source.body import callee, calls_in, dotted, expressions, statements
from backsight.source.edits import instead, on_line_with
from backsight.story.evaluated import value_of
from backsight.story.failure import is_users
from backsight.story.memory import is_leaf, maker_of

_MOST = 4
_OWNERS: dict[str, type] = {"an optimizer": torch.optim.Optimizer, "a module": torch.nn.Module}
_KINDS: dict[str, type] = {"a tensor": torch.Tensor, **_OWNERS}


@remedy(r"^'\w+' object has no attribute '(?P<name>\w+)'")
def _of_another(found: Refusal, match: Match) -> Remedy | None:
    """What it has instead, or the module or the optimizer that was meant."""
    name, statement, body = match["name"], found.level.statement, found.level.body
    error = found.failure.error
    held = error.obj if type(error) is AttributeError else None
    every = [each for each in expressions(statement) if isinstance(each, ast.Attribute) and each.attr == name]
    known = [value_of(found.level, each.value) for each in every]
    at = next((k for k, each in enumerate(known) if each is held), known.index(None) if None in known else -1)
    if body is None or at < 0 or not _kind(held):
        return None
    asked = every[at]
    text = body.text(asked.value)
    kind, owners = _kind(held), [each for each in _OWNERS if _has(_OWNERS[each], name)]
    if kind != "a tensor":
        meant = _held(found, owners)
        how = on_line_with(body, statement, {asked.value: meant}) if meant else ""
        return Remedy(f"{text} is {kind}, and {name} is what {' or '.join(owners)} has: {how}.") if how else None
    if not owners:
        return None if is_users(type(held)) else _misspelled(found, body, asked)
    is_trained = is_leaf(held) and maker_of(held) is None
    if name == "zero_grad" and (is_trained or text.endswith(".grad")):
        return _emptied(found, body, asked)
    if name == "parameters" and is_trained:
        how = on_line_with(body, statement, _alike(found, body, name))
        return Remedy(f"{text} is the parameter itself, and an optimizer takes a list of them: {how}.") if how else None
    says, meant = f"{text} is a tensor, and {name} is what {' or '.join(owners)} has", _held(found, owners)
    if (hidden := _named_after(body, text)) is not None:
        given = f"Give the result another name on line {hidden.line}: {text} is then the module."
        return Remedy(
            f"{says}. {given}", (shown(hidden, f"gives the name {text} to the result of a call of it."),), hidden
        )
    if meant:
        how = on_line_with(body, statement, {asked.value: meant})
        return Remedy(f"{says}: {how}.") if how else None
    if name == "zero_grad":
        return Remedy(f"{says}. {text} is no parameter that is trained: it has no gradient to set to 0.")
    return Remedy(f"{says}.")


def _kind(value: object) -> str:
    return next((spoken for spoken, kind in _KINDS.items() if issubclass(type(value), kind)), "")


def _has(kind: type, name: str) -> bool:
    return any(name in class_dict(each) for each in mro(kind) if each is not object)


def _held(found: Refusal, owners: list[str]) -> str | None:
    """The only optimizer that has it, else the only module."""
    return next((name for each in owners if (name := only(objects_held(found.level, _OWNERS[each])))), None)


def _named_after(body: Body, text: str) -> Place | None:
    """The statement that gave the name of a module to its output: `model = model(x)`."""
    given = ((each, *pair) for each in statements(body.node) for pair in assigned(each))
    own = (each for each, target, value in given if dotted(target) == text and _calls(value, text))
    return next((body.place(each) for each in own), None)


def _calls(value: ast.expr, text: str) -> bool:
    return isinstance(value, ast.Call) and dotted(value.func) == text


def _alike(found: Refusal, body: Body, name: str) -> dict[ast.expr, str]:
    """The calls of the statement that ask a parameter for its `parameters()`, each with a list of it."""
    calls = {call: callee(call) for call in calls_in(found.level.statement)}
    every = {call: receiver for call, (receiver, method) in calls.items() if method == name and receiver is not None}
    return {call: f"[{body.text(each)}]" for call, each in every.items() if is_leaf(value_of(found.level, each))}


def _emptied(found: Refusal, body: Body, asked: ast.Attribute) -> Remedy | None:
    """Set gradients to None, here and in the statements of the function that ask in the same way."""
    level, own = found.level, _owner(body.text(asked.value))
    every: list[tuple[Place, str, str]] = []
    for each in statements(body.node):
        receiver, method = (
            callee(each.value) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) else (None, "")
        )
        if receiver is None or method != asked.attr:
            continue
        text = body.text(receiver)
        if each is level.statement or is_leaf(value_of(level, receiver)) or text.endswith(".grad"):
            new = f"{_owner(text)}.grad = None"
            every.append((body.place(each), new, str(instead(body, each, new))))
    says = f"A tensor has no zero_grad(); what it would set to 0 is {own}.grad"
    beware = f"`{own}.zero_()` would set {own} itself to 0."
    if not any(place == level.place for place, _, _ in every):
        calls: dict[ast.expr, str] = {
            each: f"{own}.grad.zero_()" for each in calls_in(level.statement) if each.func is asked
        }
        how = on_line_with(body, level.statement, calls) if calls else ""
        return Remedy(f"{says}: {how}. {beware}") if how else None
    written = listed([f"`{new}` on line {place.line}" for place, new, _ in every], _MOST)
    return Remedy(f"{says}: write {written}{''.join(edit for _, _, edit in every)}. {beware}")


def _owner(text: str) -> str:
    return text.removesuffix(".grad").removesuffix(".data")


def _misspelled(found: Refusal, body: Body, asked: ast.Attribute) -> Remedy | None:
    """What a tensor has by a name that is nearly the same: `zero_` for `zero`, `backward` for `backwards`."""
    names = [each for each in dir(torch.Tensor) if not each.startswith("_")]
    in_place = [f"{asked.attr}_"] if f"{asked.attr}_" in names and asked.attr != "copy" else []
    others = [each for each in names if not each.endswith("_")]
    near = next(iter(in_place or difflib.get_close_matches(asked.attr, others, 1, 0.85)), "")
    how = on_line_with(body, found.level.statement, {asked: f"{body.text(asked.value)}.{near}"}) if near else ""
    return Remedy(f"A tensor has {near}, and no {asked.attr}: {how}.") if how else None
