"""Gradients that are nothing but rounding, as that of a bias before a softmax, and what an optimizer makes of them.

In exact arithmetic they are 0. Any two programs have others, and Adam makes whole updates of both.
"""

from __future__ import annotations

from collections.abc import Iterator

from backsight.traces.flow import Flow
from backsight.traces.origins import Walk
from backsight.traces.pairing import VIEWS, plain_name
from backsight.traces.records import Held
from backsight.traces.rounding import left_of

_SMALL = 1e-5
"""Gradients that small beside all together are nothing but rounding."""

_DETERMINED = 1e-2
"""The relative difference of gradients up to which an update is a function of them, however small they are."""


def gradients_of_one_shape(walk: Walk) -> Iterator[tuple[Held, Held]]:
    """Yield the gradients of both as they were before the optimizer stepped, where these can be compared."""
    a, b = walk.distances.a.values, walk.distances.b.values
    for ours, theirs in walk.held("end"):
        if ours.kind == "grad" and a[ours.value].shape == b[theirs.value].shape:
            yield ours, theirs


def least_gradient(walk: Walk, both: tuple[Flow, Flow]) -> float:
    """Return the norm below which gradients of a step are rounding beside all others together."""
    sizes = []
    for flow in both:
        held = [each for each in flow.trace.held if (each.step, each.at, each.kind) == (walk.step, "end", "grad")]
        sizes.append(flow.norm(each.value for each in held))
    return _SMALL * max(sizes)


def differ_by_rounding(walk: Walk, both: tuple[Flow, Flow], ours: Held, theirs: Held, least: float) -> bool:
    """Whether two gradients are apart by no more than rounding leaves of the terms that they sum, or of all others."""
    apart = walk.distances(ours.value, theirs.value).absolute
    return apart <= max(least, _rounding(both[0], ours.value), _rounding(both[1], theirs.value))


def of_noise(walk: Walk, both: tuple[Flow, Flow]) -> set[str]:
    """Return the parameters whose gradients have nothing in common but that they are rounding."""
    least = least_gradient(walk, both)
    return {
        ours.name
        for ours, theirs in gradients_of_one_shape(walk)
        if walk.distances(ours.value, theirs.value).relative > _DETERMINED
        and differ_by_rounding(walk, both, ours, theirs, least)
    }


def _rounding(flow: Flow, number: int) -> float:
    """Return the norm of what rounding leaves of the sum that a gradient is."""
    maker = flow.operations.get(flow.trace.values[number].maker)
    seen: set[int] = set()
    while maker is not None and plain_name(maker.op) in VIEWS and maker.inputs and maker.number not in seen:
        seen.add(maker.number)
        maker = flow.operations.get(flow.trace.values[maker.inputs[0]].maker)
    return 0.0 if maker is None else left_of(flow.trace, maker)
