"""The operands of an operation, one of which is on another device: what kind of thing it is, and how that is moved."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.devices.owners import (
    FACTORIES,
    Owner,
    anew,
    container_of,
    device_there,
    holder_in_module,
    is_known,
    made_as,
    made_there,
    moved_below,
    moves,
    origin,
    owner_of,
    spelled,
)
from backsight.diagnosis.errors.devices.placed import Apart, Placed, apart, operands
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, mro, namespace
from backsight.source import Body, Place, assignments, parsed, read_at, statement_at
from backsight.source.body import callee, calls_in, dotted, keyword
from backsight.source.edits import OR, put, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.memory import needs_gradient
from backsight.story.sections import methods_of


def of_operands(failure: Failure, indexed: str | None) -> Finding:
    """Explain an operation whose operands are on several devices."""
    placed = operands(failure)
    found = apart(failure, placed, indexed)
    if found is None:
        return _of_factory(failure, placed) or _unlocated(failure, placed)
    odd, rest = found.odd, found.rest
    told = _told(failure, found, indexed is not None)
    where = f"{odd.named} is on {odd.device}, but {rest.named} is on {rest.device}"
    rule = "an index must be on the CPU or where the indexed tensor is" if indexed else "both must be on one device"
    return explanation(
        f"{where}: {rule}.",
        (*told.lines, *failing(failure, "needs both.")),
        told.fix,
        source=told.place or failure.source,
        exact=told.sure,
    )


def _told(failure: Failure, found: Apart, is_index: bool) -> Told:
    if is_index:
        return _index(failure, found)
    if (plain := holder_in_module(failure, found.odd.tensor)) is not None:
        return _plain_attribute(failure, found, *plain)
    owner = owner_of(failure, found.odd.tensor)
    if found.odd.device.type == "meta":
        return _without_data(failure, found, owner)
    return _registered(failure, found, owner) if owner is not None else _variable(failure, found)


def _index(failure: Failure, found: Apart) -> Told:
    """An index on an accelerator, and what it indexes on the CPU."""
    odd, rest = found.odd, found.rest
    made_at, other = origin(failure, odd), origin(failure, rest)
    lines = [shown(made_at, f"computes {odd.named} on {odd.device}.")] if made_at else []
    lines += [shown(other, f"creates {rest.named} on {rest.device}.")] if other else []
    there = "cpu()" if rest.device.type == "cpu" else f"to({simple(rest.named)}.device)"
    how = f"Index with {odd.text}.{there}" if odd.text else f"Move the index first: .{there}"
    how += str(anew(odd.level, odd.text, f"{simple(odd.text)}.{there}")) if odd.text else ""
    device = spelled(failure, odd.device, odd.text)
    kept = f"create {rest.named} where the index is: device={device}{made_there(other, device)}"
    return Told(made_at, tuple(lines), f"{how}. {OR}Or {kept}.")


def _variable(failure: Failure, found: Apart) -> Told:
    """A variable, or an attribute of an object that is no module: what was made without a device, or not moved."""
    odd, device = found.odd, spelled(failure, found.rest.device, found.rest.text)
    made_at = origin(failure, odd)
    body, statement = read_at(made_at)
    here = failure.user.body if failure.user else None
    for call in calls_in(statement) if isinstance(statement, ast.Assign) else ():
        if body is None or made_at is None or not _takes_device(body, call):
            continue
        where = device if here is not None and body.node is here.node else device_there(failure, made_at, device)
        new = f"{body.text(call)[:-1]}, device={where})"
        line = rewritten(body, statement, {call: new}) if statement is not None else ""
        edit = write(made_at, line) if line and is_known(made_at, where) else ""
        says = f"creates {odd.named} on {odd.device}: no device is given."
        return Told(made_at, (shown(made_at, says),), f"Create it there: {new}{edit}.")
    lines = (shown(made_at, f"gives {odd.named}, which is on {odd.device}."),) if made_at else ()
    if dotted(parsed(odd.text)):
        new = f"{odd.text} = {odd.text}.to({device})"
        return Told(made_at, lines, f"Move it first: {new}{put(new, 'above', odd.level.place)}.", made_at is not None)
    return Told(made_at, lines, f"Move {odd.named} first: .to({device}).", sure=False)


def _takes_device(body: Body, call: ast.Call) -> bool:
    """Whether a call makes a tensor of the CPU because it is given no device."""
    return callee(call)[1] in FACTORIES and keyword(call, "device") is None and "…" not in body.text(call)


def _of_factory(failure: Failure, placed: list[Placed]) -> Finding | None:
    """A tensor that the failing line itself creates, on the CPU: `h + torch.zeros(3)`."""
    level = failure.user
    rest = next((each for each in placed if each.device.type != "cpu"), None)
    for call in calls_in(level.statement) if level is not None and rest is not None else ():
        of_torch = level is not None and getattr(value_of(level, callee(call)[0]), "__name__", "") == "torch"
        if level is None or level.body is None or rest is None or not of_torch or not _takes_device(level.body, call):
            continue
        text = level.body.text(call)
        new = f"{text[:-1]}, device={spelled(failure, rest.device, rest.text)})"
        return explanation(
            f"{text} is on the CPU, but {rest.named} is on {rest.device}: both must be on one device.",
            failing(failure, "creates it without device=."),
            f"Create it there: {new}{anew(level, text, new)}.",
            source=failure.source,
        )
    return None


def _unlocated(failure: Failure, placed: list[Placed]) -> Finding:
    found = tuple(f"{each.text} is on {each.device}." for each in placed if each.text)
    return explanation(
        "Tensors of one operation are on different devices.",
        (*failing(failure, "needs all of them on one device."), *found[:5]),
        "Print the device of each tensor on that line, and move the one that was left behind with .to(device).",
        source=failure.source,
        exact=False,
    )


@dataclass(frozen=True, eq=False)
class Told:
    """What an odd tensor is, as evidence and a fix."""

    place: Place | None
    lines: tuple[Fact, ...]
    fix: str
    sure: bool = True


def _registered(failure: Failure, found: Apart, owner: Owner) -> Told:
    """A parameter or a buffer: its model was not moved, or it was not in the model when that was."""
    device = spelled(failure, found.rest.device, found.rest.text)
    of_loss = any(base.__module__ == "torch.nn.modules.loss" for base in mro(type(owner.direct)))
    if of_loss and not owner.is_parameter:
        return _of_loss(failure, found, owner, device)
    in_list = _in_plain_list(failure, owner)
    if in_list is not None:
        return in_list
    places = moves(failure, owner.module)
    if not places and not owner.has_moved:
        name = owner.name
        place = made_as(failure, name, owner.module)
        says = f"creates {name} on {found.odd.device}; it is never moved."
        moved = f"{name} = {name}.to({device}){moved_below(place, name, device)}"
        fix = f"Move the model before its optimizer is created: {moved}."
        return Told(place, (shown(place, says),) if place else (), fix)
    within = f"{owner.name}.{owner.path.rpartition('.')[0]}" if "." in owner.path else owner.name
    lines = tuple(shown(place, f"moves {text}.", "read") for place, text in places[:1])
    fix = (
        f"Move the model again after {within} was added or replaced: {owner.name}.to({device}). Create the optimizer "
        "after that."
    )
    return Told(places[0][0] if places else None, lines, fix, sure=False)


def _of_loss(failure: Failure, found: Apart, owner: Owner, device: str) -> Told:
    """The weights of a loss, which is a module that nobody has moved."""
    place = made_as(failure, owner.name, owner.module)
    body, statement = read_at(place)
    own = owner.path.rpartition(".")[2]
    given = next((keyword(call, own) for call in calls_in(statement) if keyword(call, own) is not None), None)
    if place is None or body is None or statement is None or given is None:
        moved = moved_below(place, owner.name, device)
        fix = f"Move the loss like the model: {owner.name} = {owner.name}.to({device}){moved}."
        says = f"creates {owner.name} with {own}, which is on {found.odd.device}."
        return Told(place, (shown(place, says),) if place else (), fix)
    text, target = simple(body.text(given)), device_there(failure, place, device)
    new = rewritten(body, statement, {given: f"{text}.to({target})"})
    edit = write(place, new) if new and is_known(place, target) else ""
    moved = moved_below(place, owner.name, target, assign=False)
    return Told(
        place,
        (shown(place, f"creates {owner.name} with {own}={text}, which is on {found.odd.device}."),),
        f"Create it with {own}={text}.to({target}){edit}, {OR}or move the loss like the model: "
        f"{owner.name}.to({target}){moved}.",
    )


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
            new = f"self.{attribute} = nn.{kind}({'...' if '…' in value else value})"
            fix = f"Register the layers: {new}{write(places[0], new) if '…' not in value else ''}."
            says = "keeps layers in a plain list or dict, which .to() and .parameters() do not look into."
            return Told(places[0], (shown(places[0], says),), fix)
    return None


def _plain_attribute(failure: Failure, found: Apart, module: torch.nn.Module, attribute: str) -> Told:
    """A tensor that is an attribute of a module, and neither parameter nor buffer."""
    place, value = None, ""
    for body in methods_of(type(module)):
        places = assignments(body, f"self.{attribute}")
        if places and (place is None or body.node.name == "__init__"):  # type: ignore[union-attr]  # a method
            statement = statement_at(body, *places[-1].position)
            place, value = places[-1], body.text(statement.value) if isinstance(statement, ast.Assign) else ""
    kind = class_name(type(module))
    says = f"makes self.{attribute} a plain attribute of {kind}, which .to() does not move."
    lines: tuple[Fact, ...] = (shown(place, says),) if place else (f"self.{attribute} of the {kind} is not a buffer.",)
    lines += tuple(
        shown(each, f"moves the parameters and buffers of {text} only.", "read") for each, text in moves(failure)[:1]
    )
    text = value if value and "…" not in value else attribute
    known = place if text == value else None
    if needs_gradient(found.odd.tensor):
        new = f"self.{attribute} = nn.Parameter({text})"
        return Told(place, lines, f"Register it: {new}{write(known, new) if known else ''}, and let .to() move it.")
    if type((namespace(module) or {}).get(attribute)) in (list, tuple, dict):
        device = spelled(failure, found.rest.device, found.rest.text)
        moved, level = f"{found.odd.text}.to({device})", found.odd.level
        return Told(place, lines, f"Move each where it is read: {moved}{anew(level, found.odd.text, moved)}.")
    new = f'self.register_buffer("{attribute}", {text})'
    fix = (
        f"Register it as a buffer, which .to() moves: {new}{write(known, new) if known else ''}. Add "
        "persistent=False to leave it out of state_dict()."
    )
    return Told(place, lines, fix)


def _without_data(failure: Failure, found: Apart, owner: Owner | None) -> Told:
    """A tensor on `meta`, which has a shape and no values."""
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
        fix = f"Create {found.odd.named} with device={device}{made_there(made_at, device)}."
    return Told(made_at, lines, fix)
