"""Random numbers that only one program draws: from there on, all that both draw from the same generator differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from backsight.traces.judging import Judged
from backsight.traces.origins import Origin, Walk
from backsight.traces.pairing import RANDOM, plain_name
from backsight.traces.records import Operation, Trace

_FIX = (
    "Let both draw the same numbers in the same order: dropout is off in an evaluation only after `eval()`, or with "
    "`training=self.training` given to its function."
)


def with_draws(told: Sequence[Judged], walk: Walk) -> tuple[Judged, ...]:
    """Return origins with draws that differ told as what only one of the programs draws before them, if anything."""
    differing = [each for each in told if each.cls == "semantics" and each.code == "BS506" and each.origin.a]
    if not differing or (found := _only(walk)) is None:
        return tuple(told)
    name, drawn = found
    first = differing[0]
    trace = walk.distances.a if name == "A" else walk.distances.b
    begun = first.origin.a if name == "A" else first.origin.b
    if begun is not None and begun.number < drawn.number and begun is not drawn:
        return tuple(told)
    shape = list(trace.values[drawn.outputs[0]].shape) if drawn.outputs else []
    where = f" in module {trace.called(drawn.module)}" if drawn.module else ""
    reason = f"only {name} draws {drawn.short} of the shape {shape} here{where}, so all that both draw later differs"
    alone = ((drawn,), ()) if name == "A" else ((), (drawn,))
    origin = Origin(
        "program",
        walk.step,
        drawn.phase,
        drawn if name == "A" else first.origin.a,
        None if name == "A" else drawn,
        first.origin.values,
        first.origin.apart,
        only_a=alone[0],
        only_b=alone[1],
    )
    instead = replace(first, origin=origin, reasons=(reason,), fix=_FIX)
    here = [each for each in told if drawn in (*each.origin.only_a, *each.origin.only_b)]
    rest = [each for each in told if not any(each is other for other in (*differing, *here))]
    return (instead, *rest)


def _only(walk: Walk) -> tuple[str, Operation] | None:
    """Return the first draw of one program that has no counterpart, in the order and of the shapes of both."""
    a, b = _draws(walk.distances.a, walk.step), _draws(walk.distances.b, walk.step)
    shapes = [_shape(walk.distances.a, each) for each in a], [_shape(walk.distances.b, each) for each in b]
    for tag, i, j, k, m in SequenceMatcher(None, *shapes, autojunk=False).get_opcodes():
        if tag == "delete" and j > i:
            return "A", a[i]
        if tag == "insert" and m > k:
            return "B", b[k]
        if tag == "replace":
            return None
    return None


def _draws(trace: Trace, step: int) -> list[Operation]:
    """Return what draws from a generator that no argument names."""
    found = [each for each in trace.operations if each.step == step and plain_name(each.op) in RANDOM]
    return [each for each in found if each.outputs and each.given.get("generator") is None]


def _shape(trace: Trace, operation: Operation) -> tuple[str, tuple[int, ...]]:
    value = trace.values[operation.outputs[0]]
    return plain_name(operation.op), value.shape
