"""Trainings of different numbers of ranks: weights, gradients and losses compared, as operations cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from backsight.traces.difference import Parted
from backsight.traces.distance import Apart, Distances, factor, unit
from backsight.traces.growth import SETTLED, Point, as_called, growth, renamed
from backsight.traces.judging import Judged, judged
from backsight.traces.origins import Origin, Walk
from backsight.traces.ranks import as_one, losses
from backsight.traces.records import Held, Trace, Value

Ranks = Sequence[Trace]

_UPDATED = 1e-2
"""The relative difference of updates beyond which rounding of gradients does not explain it."""


def across(a: Ranks, b: Ranks, steps: Sequence[int]) -> tuple[tuple[Parted, ...], Distances]:
    """Compare what the ranks of two trainings hold, step by step."""
    distances = Distances(as_one(a), as_one(b))
    return tuple(_parted((a, b), distances, step, first=step == steps[0]) for step in steps), distances


def _parted(ranks: tuple[Ranks, Ranks], distances: Distances, step: int, *, first: bool) -> Parted:
    walk = Walk(distances, step).run(first=first)
    origins = [judged(each, distances, False, {}) for each in walk.origins if each.kind == "start"]
    told = [losses(each, step) for each in ranks]
    known = [each for each in told if each is not None]
    allowed = SETTLED * unit("float32")
    parted = len(known) == 2 and abs(known[0] - known[1]) > allowed * max(map(abs, known))
    points = growth(walk)
    if not origins:
        origins = _gradients(walk, parted, [len(each) for each in ranks])
        if all(each.cls == "noise" for each in origins):
            origins = [*_weights(walk, points), *origins]
    named = as_called(points, distances.a)
    return Parted(step, 0, 0, 0, 0, tuple(origins), named, (told[0], told[1]), renamed(walk))


def _gradients(walk: Walk, parted: bool, counts: list[int]) -> list[Judged]:
    """Return the gradients that differ, from those that a backward pass reaches first on; parted: whether losses do."""
    pairs = [(x, y, _origin(walk, x, y, "backward")) for x, y in reversed(_differing(walk, "grad"))]
    found = [_judged(origin, parted, counts) for _, _, origin in pairs]
    ratios = [factor(*_both(walk), *_values(walk, origin)) for _, _, origin in pairs if not origin.rounds]
    if (ratio := next((each for each in ratios if each is not None), None)) is not None:
        said = f"B is A times {ratio:.4g}{_unaveraged(ratio, max(counts))}"
        found = [each if each.cls == "noise" else replace(each, reasons=(*each.reasons, said)) for each in found]
    return sorted(found, key=lambda each: each.cls == "noise")


def _unaveraged(ratio: float, ranks: int) -> str:
    """Say what a ratio of gradients tells, if anything."""
    near = abs(max(ratio, 1 / ratio) / ranks - 1) < 1e-2
    return f": averaged over {ranks} ranks in one, and not in the other" if near else ""


def _judged(origin: Origin, parted: bool, counts: list[int]) -> Judged:
    if origin.rounds:
        return Judged(origin, "noise", "BS503", (f"gradients are summed in another order: {_said(counts)}",))
    if parted:
        return Judged(origin, "semantics", "BS501", (f"the loss differs as well: {_said(counts)}",))
    return Judged(origin, "semantics", "BS507", ())


def _weights(walk: Walk, points: tuple[Point, ...]) -> list[Judged]:
    """Return the weights whose updates differ though no gradient does: the optimizer's."""
    updates = {each.name: each.relative for each in points if each.what == "update"}
    pairs = [(x, y) for x, y in _differing(walk, "weight") if updates.get(x.name, 0.0) > _UPDATED]
    reasons = ("the gradients agree, and the updates of the weights do not",)
    return [Judged(_origin(walk, x, y, "optimizer"), "semantics", "BS508", reasons) for x, y in pairs]


def _values(walk: Walk, origin: Origin) -> tuple[Value, Value]:
    return walk.distances.a.values[origin.values[0]], walk.distances.b.values[origin.values[1]]


def _differing(walk: Walk, kind: str) -> list[tuple[Held, Held]]:
    values = walk.distances.a.values, walk.distances.b.values
    pairs = [(ours, theirs) for ours, theirs in walk.held("end") if ours.kind == kind]
    read = [(x, y) for x, y in pairs if min(values[0][x.value].mark, values[1][y.value].mark) >= 0]
    return [(x, y) for x, y in read if not walk.distances(x.value, y.value).same]


def _origin(walk: Walk, ours: Held, theirs: Held, phase: str) -> Origin:
    apart: Apart = walk.distances(ours.value, theirs.value)
    allowed = SETTLED * unit(walk.distances.a.values[ours.value].dtype)
    names, values = (f"{ours.kind} {ours.name}",), (ours.value, theirs.value)
    return Origin("held", walk.step, phase, None, None, values, apart, 0.0, allowed, names=names)  # type: ignore[arg-type]


def _both(walk: Walk) -> tuple[Trace, Trace]:
    return walk.distances.a, walk.distances.b


def _said(counts: list[int]) -> str:
    return " and ".join(f"{count} rank{'s' * (count > 1)} in {name}" for name, count in zip("AB", counts, strict=True))
