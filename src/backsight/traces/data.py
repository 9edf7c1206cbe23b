"""Other samples of the same data: told as that, and not as operations that pick them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from backsight.traces.judging import Judged
from backsight.traces.origins import Walk
from backsight.traces.pairing import RANDOM, VIEWS, plain_name
from backsight.traces.records import Operation, Trace

_PICKS = frozenset(("select", "index", "index_select"))
_COLLECTS = frozenset(("stack", "cat", "_to_copy", "clone"))
_READS = frozenset(("_local_scalar_dense", "item"))

PICKED = "both pick from data that was there before the step, but different samples: the order of the data differs"
DRAWN = "it draws the order in which samples are picked"


def as_data(told: Sequence[Judged], every: Sequence[Judged], walk: Walk) -> tuple[Judged, ...]:
    """Return origins with those that pick other samples of the data told as that, and what draws the order first.

    every: what was compared operation by operation, among it what draws an order that reaches the samples as numbers of
    Python.
    """
    picks = {id(each.origin) for each in told if _picks(each, walk)}
    drawing = every if picks else [each for each in told if each.cls == "semantics"]
    draws = {id(each.origin) for each in drawing if _orders(each, walk, through_python=bool(picks))}
    if not picks and not draws:
        return tuple(told)
    ordered = [each for each in drawing if id(each.origin) in draws]
    several = [each for each in ordered if walk.distances.a.values[each.origin.values[0]].shape]
    ordered = [_told(each, DRAWN) for each in several or ordered]  # a loader draws a seed for its workers besides
    left = [each for each in told if id(each.origin) not in draws]
    found = [_told(each, PICKED) if id(each.origin) in picks else each for each in left]
    return (*ordered, *(each for each in found if each.cls != "noise" or not _is_integer(each, walk)))


def _told(judged: Judged, reason: str) -> Judged:
    return replace(judged, cls="semantics", code="BS505", reasons=(*judged.reasons, reason), fix="")


def _picks(judged: Judged, walk: Walk) -> bool:
    origin = judged.origin
    if judged.cls != "semantics" or origin.phase != "forward" or origin.kind not in ("operation", "program"):
        return False
    sides = (origin.only_a, origin.only_b) if origin.kind == "program" else ((origin.a,), (origin.b,))
    traces = walk.distances.a, walk.distances.b
    named = [(trace, each) for trace, side in zip(traces, sides, strict=True) for each in side if each is not None]
    picks = [_is_pick(trace, each) for trace, each in named]
    return any(picks) and all(
        pick or plain_name(each.op) in _COLLECTS | VIEWS for pick, (_, each) in zip(picks, named, strict=True)
    )


def _is_pick(trace: Trace, operation: Operation) -> bool:
    """Whether an operation picks a sample of what comes from outside of the step, and no module holds."""
    if plain_name(operation.op) not in _PICKS or not operation.inputs or operation.given.get("dim", 0) != 0:
        return False
    base = trace.values[operation.inputs[0]]
    return base.maker == -1 and not base.name


def _orders(judged: Judged, walk: Walk, *, through_python: bool) -> bool:
    """Whether an operation draws whole numbers that pick samples, or that only Python has, where that is said."""
    origin = judged.origin
    if origin.kind != "operation" or origin.phase != "forward" or origin.a is None or origin.before:
        return False
    if plain_name(origin.a.op) not in RANDOM or not _is_integer(judged, walk):
        return False
    trace, made = walk.distances.a, set(origin.a.outputs)
    taken: list[Operation] = []
    for each in trace.operations:
        if each.step == walk.step and each is not origin.a and made & set(each.inputs):
            taken.append(each)
            if plain_name(each.op) in VIEWS:
                made.update(each.outputs)
    picks = [each for each in taken if _is_pick(trace, each)]
    rest = [each for each in taken if each not in picks and plain_name(each.op) not in VIEWS | _READS]
    return not rest and (bool(picks) or through_python)


def _is_integer(judged: Judged, walk: Walk) -> bool:
    traces = walk.distances.a, walk.distances.b
    values = [trace.values[number] for trace, number in zip(traces, judged.origin.values, strict=True)]
    return all(each.dtype.startswith(("int", "uint")) for each in values)
