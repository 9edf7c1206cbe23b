"""Tensors that one program detaches on the way to the loss, where the gradient of the other passes."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.traces.flow import Flow, Values
from backsight.traces.growth import losses_of
from backsight.traces.judging import Judged
from backsight.traces.origins import Origin, Walk
from backsight.traces.pairing import VIEWS, plain_name
from backsight.traces.records import Operation

CUT = "aten.detach.default"


def cuts(flow: Flow, step: int) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that detach what the loss is computed of, in order, each with the value."""
    operations = [each for each in flow.operations.values() if each.phase == "forward" and each.op != "module"]
    losing = _before(flow, losses_of(flow.trace, step))
    for each in operations:
        if each.op == CUT and each.inputs:
            value = each.inputs[0]
            taker = next((one for one in operations if one.number > each.number and value in one.inputs), None)
            if taker is not None and taker.number in losing:
                yield each, value


def _before(flow: Flow, numbers: list[int]) -> set[int]:
    """Return the operations that values are computed by."""
    found: set[int] = set()
    stack = [flow.trace.values[each].maker for each in numbers]
    while stack:
        operation = flow.operations.get(stack.pop())
        if operation is not None and operation.number not in found:
            found.add(operation.number)
            stack += [flow.trace.values[each].maker for each in operation.inputs]
    return found


def judged_cut(walk: Walk, flows: tuple[Flow, Flow], ends: tuple[tuple[int, ...], ...]) -> Judged | None:
    """Return the origin of gradients that differ because one program has detached a tensor."""
    if not all(ends):
        return None
    for mine, other, name in ((*flows, "A"), (*flows[::-1], "B")):
        held = [each for one in other.operations.values() if one.phase == "forward" for each in one.outputs]
        values = Values(other.trace, held)
        detached = Values(other.trace, [value for _, value in cuts(other, walk.step)])
        for cut, value in reversed([*cuts(mine, walk.step)]):
            there = values.alike(mine.trace, value)
            if (
                there is None
                or detached.alike(mine.trace, value) is not None
                or (made := _differentiated(other, there)) is None
            ):
                continue
            return _judged(walk, cut, made, name, (ends[0][0], ends[1][0]))
    return None


def _differentiated(flow: Flow, value: int) -> Operation | None:
    """Return the operation that a value is of, if the backward pass of the program goes through it.

    Of what writes in place, only what it is given tells: its node is that of another tensor by then.
    """
    first = flow.operations.get(flow.trace.values[value].maker)
    differentiated = {each.of for each in flow.operations.values() if each.phase == "backward"}
    stack, seen = [first], set()
    while stack:
        maker = stack.pop()
        if maker is None or maker.number in seen:
            continue
        seen.add(maker.number)
        if maker.number in differentiated:
            return first
        if plain_name(maker.op) in VIEWS | {"clone"} or maker.short.endswith("_"):
            stack += [flow.operations.get(flow.trace.values[each].maker) for each in maker.inputs]
    return None


def _judged(walk: Walk, cut: Operation, made: Operation, name: str, values: tuple[int, int]) -> Judged:
    sides = (cut, made) if name == "A" else (made, cut)
    only = {"only_a": (cut,)} if name == "A" else {"only_b": (cut,)}
    other = "B" if name == "A" else "A"
    reason = f"no gradient passes through what {name} detaches here; in {other} one does"
    origin = Origin("program", walk.step, "backward", *sides, values, walk.distances(*values), by_values=True, **only)  # type: ignore[arg-type]
    return Judged(origin, "semantics", "BS507", (reason,))
