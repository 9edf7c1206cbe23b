"""BS146: results that are lost: of methods that leave a tensor as it was, and of additions to the same place."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import torch

from backsight.diagnosis.evidence.lost_update import lost_update
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown, warning
from backsight.source import Body
from backsight.source.bindings import target_names
from backsight.source.body import dotted, statements
from backsight.source.out_of_place import arguments
from backsight.tracing import Sighting, Spot, Write

CODES = ("BS146",)

_WITHOUT_TWIN = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16"})


def dropped(sightings: Iterable[Sighting]) -> Iterator[Finding]:
    """Yield the findings of statements that were seen to do nothing but to make a tensor, which nobody gets."""
    for seen in sightings:
        spot = seen.spot
        if not spot.dropped or not isinstance(spot.call.func, ast.Attribute):
            continue
        receiver, place = spot.body.text(spot.call.func.value), spot.body.place(spot.statement)
        yield warning(
            "BS146",
            f"{receiver} is not changed: the result of {spot.method} is thrown away.",
            (shown(place, f"returns a new tensor and leaves {receiver} as it was."),),
            _kept(seen, spot, receiver),
            place,
        )


def lost_in_step(optimizer: torch.optim.Optimizer) -> Finding | None:
    """Return the finding of an update that an optimizer of the program's computes and throws away."""
    lost = lost_update(optimizer)
    if lost is None:
        return None
    return warning(
        "BS146",
        f"{type(optimizer).__name__}.step() does not change {lost.name}: the result of {lost.lost} is thrown away.",
        lost.shown,
        lost.fix,
        lost.place,
    )


def _kept(seen: Sighting, spot: Spot, receiver: str) -> str:
    """Say how to keep the result: in place where the memory itself is meant, and where autograd allows it."""
    given = ", ".join(arguments(spot.body, spot.call))
    assigned = f"{receiver} = {spot.body.text(spot.call)}"
    in_place = f"{receiver}.{spot.method}_({given})"
    if spot.method in _WITHOUT_TWIN or not dotted(spot.call.func.value):  # type: ignore[attr-defined]  # an attribute
        return f"Assign the result: {assigned}."
    last = receiver.split(".")[-1]
    attached = seen.enabled and seen.requires_grad
    if receiver in _looped(spot.body) and attached:
        return f"Change it in place, inside `with torch.no_grad():`: {in_place}."
    if (receiver in _looped(spot.body) or last in ("data", "grad") or seen.requires_grad) and not attached:
        return f"Change it in place: {in_place}."
    return f"Assign the result: {assigned}."


def _looped(body: Body) -> set[str]:
    """Return the variables of loops: to assign one changes nothing but itself."""
    return {name for each in statements(body.node) if isinstance(each, ast.For) for name in target_names(each.target)}


def lost_writes(writes: Iterable[Write]) -> Iterator[Finding]:
    """Yield the findings of `x[index] += y` where the index was seen to have repeated entries."""
    for each in writes:
        target, index = each.target, each.body.text(each.target.slice)
        name, place = each.body.text(target.value), each.body.place(each.statement)
        yield warning(
            "BS146",
            f"{name} loses additions: {index} has repeated entries, and += through an index adds only once to each.",
            (
                shown(
                    place,
                    f"adds at {each.entries:,} entries, {each.distinct:,} of them distinct: of those that are the "
                    "same, the last one overwrites the others.",
                ),
            ),
            f"Accumulate: {_accumulated(each, name, index)}.",
            place,
        )


def _accumulated(write: Write, name: str, index: str) -> str:
    added = write.body.text(write.added)
    several = isinstance(write.target.slice, ast.Tuple)
    sign = "-" if write.subtracts else ""
    if several or not write.is_by_rows or isinstance(write.added, ast.Constant):
        is_plain = isinstance(write.added, ast.Name | ast.Constant | ast.Subscript)
        value = f"{sign}{added}" if is_plain or not sign else f"{sign}({added})"
        if isinstance(write.added, ast.Constant):
            value = f"torch.tensor({value}, dtype={name}.dtype)"
        indices = f"({index})" if several else f"({index},)"
        return f"{name}.index_put_({indices}, {value}, accumulate=True)"
    return f"{name}.index_add_(0, {index}, {added}{', alpha=-1' if sign else ''})"
