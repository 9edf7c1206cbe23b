"""The operands of an operation, one of which is on another device: what kind of thing it is, and how that is moved."""

from __future__ import annotations

import ast

from backsight.diagnosis.errors.devices.owners import (
    dotted_text,
    holder_in_module,
    owner_of,
    spelled,
)
from backsight.diagnosis.errors.devices.placed import Apart, Placed, apart, operands
from backsight.diagnosis.errors.devices.places import device_there, origin
from backsight.diagnosis.errors.devices.registered import Told, plain_attribute, registered, without_data
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.source import statement_at
from backsight.source.body import body_around, callee, calls_in, keyword
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure

_NAMES = (
    "zeros ones rand randn randint randperm arange tensor full empty eye linspace tril_indices triu_indices from_numpy"
)
_FACTORIES = frozenset(_NAMES.split())


def of_operands(failure: Failure, indexed: str | None) -> Finding:
    """Explain an operation whose operands are on several devices."""
    placed = operands(failure)
    found = apart(failure, placed, indexed)
    if found is None:
        return _of_factory(failure, placed) or _unlocated(failure, placed)
    if found.odd.device.type == "meta" and _is_left_behind(failure, found):
        found = Apart(found.rest, found.odd)
    odd, rest = found.odd, found.rest
    told = _told(failure, found, indexed is not None)
    where = f"{odd.named} is on {odd.device}, but {rest.named} is on {rest.device}"
    rule = "an index must be on the CPU or where the indexed tensor is" if indexed else "both must be on one device"
    return explanation(
        f"{where}: {rule}.",
        (*told.lines, *failing(failure, "needs both.")),
        told.fix,
        source=str(told.place) if told.place else failure.source,
        exact=told.sure,
    )


def _is_left_behind(failure: Failure, found: Apart) -> bool:
    """Whether the one with values is what no `.to()` moves, so that the other is on `meta` on purpose."""
    plain = [holder_in_module(failure, each.tensor) is not None for each in (found.odd, found.rest)]
    return plain == [False, True]


def _told(failure: Failure, found: Apart, is_index: bool) -> Told:
    odd = found.odd
    if is_index:
        return _index(failure, found)
    plain = holder_in_module(failure, odd.tensor)
    if plain is not None:
        return plain_attribute(failure, found, *plain)
    if odd.device.type == "meta":
        return without_data(failure, found)
    owner = owner_of(failure, odd.tensor)
    if owner is not None:
        return registered(failure, found, owner)
    return _variable(failure, found)


def _index(failure: Failure, found: Apart) -> Told:
    """An index on an accelerator, and what it indexes on the CPU."""
    odd, rest = found.odd, found.rest
    made_at, other = origin(failure, odd), origin(failure, rest)
    lines = [shown(made_at, f"computes {odd.named} on {odd.device}.")] if made_at else []
    lines += [shown(other, f"creates {rest.named} on {rest.device}.")] if other else []
    there = "cpu()" if rest.device.type == "cpu" else f"to({simple(rest.named)}.device)"
    how = f"Index with {odd.text}.{there}" if odd.text else f"Move the index first: .{there}"
    kept = f"create {rest.named} where the index is: device={spelled(failure, odd.device, odd.text)}"
    return Told(made_at, tuple(lines), f"{how}. Or {kept}.")


def _variable(failure: Failure, found: Apart) -> Told:
    """A variable, or an attribute of an object that is no module: what was made without a device, or not moved."""
    odd, device = found.odd, spelled(failure, found.rest.device, found.rest.text)
    made_at = origin(failure, odd)
    body = body_around(made_at.file, made_at.line) if made_at else None
    statement = statement_at(body, *made_at.position) if made_at else None
    for call in calls_in(statement) if body is not None and isinstance(statement, ast.Assign) else ():
        if callee(call)[1] in _FACTORIES and keyword(call, "device") is None and body is not None:
            text = body.text(call)
            if "…" not in text:
                where = device if body.node is _node(failure) else device_there(failure, made_at, device)
                lines = (
                    (shown(made_at, f"creates {odd.named} on {odd.device}: no device is given."),) if made_at else ()
                )
                at = "" if _is_one(callee(call)[1]) else f"Create it there: {text[:-1]}, device={where})."
                return Told(made_at, lines, at or f"Move it: {text}.to({where}).")
    lines = (shown(made_at, f"gives {odd.named}, which is on {odd.device}."),) if made_at else ()
    if odd.text and dotted_text(odd.text):
        return Told(made_at, lines, f"Move it first: {odd.text} = {odd.text}.to({device}).", sure=made_at is not None)
    return Told(made_at, lines, f"Move {odd.named} first: .to({device}).", sure=False)


def _is_one(name: str) -> bool:
    """Whether a function makes a tensor of the CPU and takes no device."""
    return name == "from_numpy"


def _node(failure: Failure) -> object:
    return failure.user.body.node if failure.user and failure.user.body else None


def _of_factory(failure: Failure, placed: list[Placed]) -> Finding | None:
    """A tensor that the failing line itself creates, on the CPU: `h + torch.zeros(3)`."""
    level = failure.user
    rest = next((each for each in placed if each.device.type != "cpu"), None)
    if level is None or level.body is None or rest is None:
        return None
    for call in calls_in(level.statement):
        text = level.body.text(call)
        of_torch = getattr(value_of(level, callee(call)[0]), "__name__", "") == "torch"
        if not of_torch or callee(call)[1] not in _FACTORIES or keyword(call, "device") is not None or "…" in text:
            continue
        device = spelled(failure, rest.device, rest.text)
        moved = f"Move it: {text}.to({device})."
        return explanation(
            f"{text} is on the CPU, but {rest.named} is on {rest.device}: both must be on one device.",
            failing(failure, "creates it without device=."),
            moved if _is_one(callee(call)[1]) else f"Create it there: {text[:-1]}, device={device}).",
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
