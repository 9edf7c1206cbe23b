"""How a difference grows: over the modules of a forward pass, over the gradients of a backward pass, and over steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from backsight.traces.distance import norm, unit
from backsight.traces.origins import Walk
from backsight.traces.records import Operation, Trace

SETTLED = 1000.0
"""Units in the last place, relative to the norm, within which what comes of a step counts as the same but for rounding:
noise of an operation at the beginning grows on its way through some hundred others."""

_UPDATED = 1e-3
"""The relative difference of changes of weights within which they count as the same: rounding of gradients near 0 turns
the sign of what Adam makes of them."""


_CHANGED = 4.0
"""By how much a change of weights must exceed their rounding."""


@dataclass(frozen=True)
class Point:
    """How far apart one thing is in one step: what a module returned, the loss, a gradient, all weights."""

    step: int
    what: str
    name: str
    relative: float


def growth(walk: Walk) -> tuple[Point, ...]:
    """Return how far apart modules' results, the loss, gradients and weights are, in the order of the step."""
    return (*_modules(walk), *_loss(walk), *_held(walk, "grad"), *_held(walk, "weight"), *_updates(walk))


def as_called(points: Iterable[Point], a: Trace) -> tuple[Point, ...]:
    """Return points by what program A calls the modules, gradients and weights."""
    return tuple(each if each.what == "loss" else replace(each, name=a.called(each.name)) for each in points)


def renamed(walk: Walk) -> tuple[tuple[str, str], ...]:
    """Return what is called otherwise in B: models by their variables, then what else has another name in them."""
    a, b = walk.distances.a.called, walk.distances.b.called
    models = [(ours, b.by_path[path]) for path, ours in a.by_path.items() if b.by_path.get(path, ours) != ours]
    names = [(a(ours), b(theirs)) for ours, theirs in walk.names.items() if ours != theirs]
    modules = [(f"module {a(ours)}", f"module {b(theirs)}") for ours, theirs in walk.pairing.modules.items()]
    return (*models, *names, *modules)


def settled(walk: Walk, points: tuple[Point, ...]) -> bool:
    """Whether the loss, the gradients and what the models return agree, but for rounding."""
    told = [each for each in points if each.what == "grad"]
    modules = [each for each in points if each.what == "module"]
    if all(isfinite(each.relative) for each in modules):  # else the batch is in other parts
        told += [each for each in points if each.what == "loss"] + (modules if not told else [])
    if not told:
        return False
    dtypes = {value.dtype for trace in (walk.distances.a, walk.distances.b) for value in trace.values}
    allowed = SETTLED * max((unit(each) for each in dtypes if each == "float64"), default=0.0)
    allowed = max(allowed, SETTLED * max((unit(each) for each in dtypes if each == "float32"), default=0.0))
    return all(each.relative <= allowed for each in told)


def updated_alike(points: tuple[Point, ...]) -> bool:
    """Whether the weights were updated alike: for what an optimizer does differently though gradients agree."""
    updates = [each.relative for each in points if each.what == "update"]
    return bool(updates) and max(updates) <= _UPDATED


def loss_of(trace: Trace, step: int) -> int | None:
    """Return the number of the value that backward was called on: the last single number before it."""
    found: int | None = None
    for operation in trace.operations:
        if operation.step != step:
            continue
        if operation.phase == "backward":
            return found
        found = _scalar(trace, operation, found)
    return None


def losses_of(trace: Trace, step: int) -> list[int]:
    """Return the values that backward was called on, as far as they are single numbers: the last before each pass."""
    found: list[int] = []
    last: int | None = None
    for operation in trace.operations:
        if operation.step == step:
            if operation.phase == "backward" and last is not None:
                found.append(last)
                last = None
            last = _scalar(trace, operation, last)
    return found


def losses_of_both(walk: Walk) -> tuple[int | None, int | None]:
    """Return the first loss of both programs; none where one goes backward more often, so that it is of a part of the
    batch."""
    a, b = walk.distances.a, walk.distances.b
    if len(losses_of(a, walk.step)) != len(losses_of(b, walk.step)):
        return None, None
    return loss_of(a, walk.step), loss_of(b, walk.step)


def _scalar(trace: Trace, operation: Operation, otherwise: int | None) -> int | None:
    if operation.phase != "forward" or operation.op in ("module", "aten.ones_like.default"):
        return otherwise
    for number in operation.outputs:
        if trace.values[number].shape == () and trace.values[number].dtype.startswith(("float", "bfloat")):
            return number
    return otherwise


def number_of(trace: Trace, value: int | None) -> float | None:
    """Return a single number that was kept."""
    kept = None if value is None else trace.kept.get(trace.values[value].mark)
    return float(kept.ravel()[0]) if kept is not None and kept.size == 1 else None


def _modules(walk: Walk) -> Iterator[Point]:
    a = [each for each in walk.distances.a.operations if each.step == walk.step and each.op == "module"]
    theirs = {each.number: each for each in walk.distances.b.operations if each.op == "module"}
    for ours in a:
        other = theirs.get(walk.pairing.to_b.get(ours.number, -1))
        if other is not None and ours.phase == "forward":
            pairs = zip(ours.outputs, other.outputs, strict=False)
            furthest = max((walk.distances(x, y).relative for x, y in pairs), default=0.0)
            yield Point(walk.step, "module", ours.module, furthest)


def _loss(walk: Walk) -> Iterator[Point]:
    ours, theirs = losses_of_both(walk)
    if ours is not None and theirs is not None:
        yield Point(walk.step, "loss", "loss", walk.distances(ours, theirs).relative)


def _updates(walk: Walk) -> Iterator[Point]:
    """Yield how far apart the changes of the weights are, which are small beside the weights themselves."""
    began = {ours.name: (ours, theirs) for ours, theirs in walk.held("start") if ours.kind == "weight"}
    for ours, theirs in walk.held("end"):
        if ours.kind == "weight" and ours.name in began:
            first, second = began[ours.name]
            x = _change(walk.distances.a, first.value, ours.value)
            y = _change(walk.distances.b, second.value, theirs.value)
            if x is not None and y is not None and (size := max(float(np.linalg.norm(x)), float(np.linalg.norm(y)))):
                rounded = unit("float32") * norm(walk.distances.a, walk.distances.a.values[ours.value])
                apart = max(0.0, float(np.linalg.norm(x - y)) - rounded)
                # A change that is itself no more than rounding, as of an average over equal weights, is none.
                yield Point(walk.step, "update", ours.name, apart / size if size > _CHANGED * rounded else 0.0)


def _change(trace: Trace, before: int, after: int) -> NDArray[np.float64] | None:
    marks = trace.values[before].mark, trace.values[after].mark
    if min(marks) < 0:
        return None
    change: NDArray[np.float64] = trace.prints[marks[1]]["sketch"] - trace.prints[marks[0]]["sketch"]
    return change


def _held(walk: Walk, kind: str) -> Iterator[Point]:
    for ours, theirs in walk.held("end"):
        if ours.kind == kind:
            yield Point(walk.step, kind, ours.name, walk.distances(ours.value, theirs.value).relative)
