"""What a module holds and is on another device: parameters, buffers, plain attributes, the weights of a loss."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.devices.owners import (
    Owner,
    container_of,
    moves,
    owner_of,
    spelled,
)
from backsight.diagnosis.errors.devices.placed import Apart
from backsight.diagnosis.errors.devices.places import device_there, made_as, origin
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, mro, namespace
from backsight.source import Place, assignments, statement_at
from backsight.source.body import body_around, calls_in, keyword
from backsight.story.failure import Failure
from backsight.story.memory import needs_gradient
from backsight.story.sections import methods_of


@dataclass(frozen=True, eq=False)
class Told:
    """What an odd tensor is, as evidence and a fix."""

    place: Place | None
    lines: tuple[Fact, ...]
    fix: str
    sure: bool = True


def registered(failure: Failure, found: Apart, owner: Owner) -> Told:
    """A parameter or a buffer: its model was not moved, or it was not in the model when that was."""
    device = spelled(failure, found.rest.device, found.rest.text)
    if _is_loss(owner.direct) and not owner.is_parameter:
        return _of_loss(failure, found, owner, device)
    in_list = _in_plain_list(failure, owner)
    if in_list is not None:
        return in_list
    places = moves(failure, owner.module)
    if not places and not owner.has_moved:
        name = owner.name
        place = made_as(failure, name, owner.module)
        lines: tuple[Fact, ...] = (
            (shown(place, f"creates {name} on {found.odd.device}; it is never moved."),) if place else ()
        )
        return Told(place, lines, f"Move the model before its optimizer is created: {name} = {name}.to({device}).")
    within = f"{owner.name}.{owner.path.rpartition('.')[0]}" if "." in owner.path else owner.name
    lines = tuple(shown(place, f"moves {text}.", "read") for place, text in places[:1])
    fix = (
        f"Move the model again after {within} was added or replaced: {owner.name}.to({device}). Create the optimizer "
        "after that."
    )
    return Told(places[0][0] if places else None, lines, fix, sure=False)


def _is_loss(module: torch.nn.Module) -> bool:
    return any(base.__module__ == "torch.nn.modules.loss" for base in mro(type(module)))


def _of_loss(failure: Failure, found: Apart, owner: Owner, device: str) -> Told:
    """The weights of a loss, which is a module that nobody has moved."""
    place = made_as(failure, owner.name, owner.module)
    statement = statement_at(body_around(place.file, place.line), *place.position) if place else None
    own = owner.path.rpartition(".")[2]
    given = next((keyword(call, own) for call in calls_in(statement) if keyword(call, own) is not None), None)
    body = body_around(place.file, place.line) if place else None
    text = simple(body.text(given)) if given is not None and body is not None else ""
    says = f"creates {owner.name} with {f'{own}={text}' if text else own}, which is on {found.odd.device}."
    lines = (shown(place, says),) if place else ()
    if text:
        target = device_there(failure, place, device)
        fix = f"Create it with {own}={text}.to({target}), or move the loss like the model: {owner.name}.to({target})."
    else:
        fix = f"Move the loss like the model: {owner.name} = {owner.name}.to({device})."
    return Told(place, lines, fix)


def _in_plain_list(failure: Failure, owner: Owner) -> Told | None:
    """A layer in a list that is an attribute of a module: `.to()` and `.parameters()` do not see it."""
    held = container_of(failure, owner.direct)
    if held is None:
        return None
    outer, attribute = held
    for body in methods_of(type(outer)):
        places = assignments(body, f"self.{attribute}")
        statement = statement_at(body, *places[0].position) if places else None
        if isinstance(statement, ast.Assign):
            value = body.text(statement.value)
            kind = "ModuleDict" if isinstance(statement.value, ast.Dict | ast.DictComp) else "ModuleList"
            fix = f"Register the layers: self.{attribute} = nn.{kind}({'...' if '…' in value else value})."
            says = "keeps layers in a plain container, which .to() and .parameters() do not look into."
            return Told(places[0], (shown(places[0], says),), fix)
    return None


def plain_attribute(failure: Failure, found: Apart, module: torch.nn.Module, attribute: str) -> Told:
    """A tensor that is an attribute of a module, and neither parameter nor buffer."""
    place, value = None, ""
    for body in methods_of(type(module)):
        places = assignments(body, f"self.{attribute}")
        if places and (place is None or body.node.name == "__init__"):  # type: ignore[union-attr]  # a method
            statement = statement_at(body, *places[-1].position)
            place, value = places[-1], body.text(statement.value) if isinstance(statement, ast.Assign) else ""
    kind = class_name(type(module))
    trained = needs_gradient(found.odd.tensor)
    says = f"makes self.{attribute} a plain attribute of {kind}, which .to() does not move."
    lines: tuple[Fact, ...] = (shown(place, says),) if place else (f"self.{attribute} of the {kind} is not a buffer.",)
    lines += tuple(
        shown(each, f"moves the parameters and buffers of {text} only.", "read") for each, text in moves(failure)[:1]
    )
    text = value if value and "…" not in value else attribute
    if trained:
        return Told(place, lines, f"Register it: self.{attribute} = nn.Parameter({text}), and let .to() move it.")
    if type((namespace(module) or {}).get(attribute)) in (list, tuple, dict):
        device = spelled(failure, found.rest.device, found.rest.text)
        return Told(place, lines, f"Move each where it is read: {found.odd.text}.to({device}).")
    fix = (
        f'Register it as a buffer, which .to() moves: self.register_buffer("{attribute}", {text}). Add '
        "persistent=False to leave it out of state_dict()."
    )
    return Told(place, lines, fix)


def without_data(failure: Failure, found: Apart) -> Told:
    """A tensor on `meta`, which has a shape and no values."""
    owner = owner_of(failure, found.odd.tensor)
    device = spelled(failure, found.rest.device, found.rest.text)
    made_at = origin(failure, found.odd) if owner is None else made_as(failure, owner.name, owner.module)
    lines: tuple[Fact, ...] = ("A tensor on meta has a shape, but no values.",)
    if made_at is not None:
        lines = (shown(made_at, f"creates {owner.name if owner else found.odd.named} on meta."), *lines)
    if owner is not None:
        fix = (
            f"Give the model memory, then its weights: {owner.name}.to_empty(device={device}), then load_state_dict(). "
            f"Or create it with device={device}."
        )
    else:
        fix = f"Create {found.odd.named} with device={device}."
    return Told(made_at, lines, fix)
