"""Gradients that are those of the other program, times one number: a factor, or a sum in place of a mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from backsight.text import counted
from backsight.traces.distance import factor
from backsight.traces.flow import Flow
from backsight.traces.growth import losses_of
from backsight.traces.judging import Judged
from backsight.traces.origins import Origin, Walk
from backsight.traces.records import Operation


def judged_parts(walk: Walk, flows: tuple[Flow, Flow], ends: tuple[tuple[int, ...], ...]) -> Judged | None:
    """Return the origin where parts of a batch are added up, so that all gradients are those of A, times one number."""
    parts = max(flow.parts for flow in flows)
    a, b = walk.distances.a, walk.distances.b
    pairs = [(ours.value, theirs.value) for ours, theirs in walk.held("end") if ours.kind == "grad"]
    ratios = [factor(a, b, a.values[x], b.values[y]) for x, y in pairs if x in ends[0] or y in ends[1]]
    known = [each for each in ratios if each is not None]
    if parts == 1 or len(known) < max(1, len(ratios) // 2) or max(known) - min(known) > 1e-2 * max(map(abs, known)):
        return None
    ours, theirs = (_maker(flow, losses_of(flow.trace, walk.step)) for flow in flows)
    values, names = pairs[0], ("grad each weight",)
    origin = Origin("held", walk.step, "backward", ours, theirs, values, walk.distances(*values), names=names)
    name = "A" if flows[0].parts == parts else "B"
    said = f"every gradient of B is that of A times {median(known):.4g}"
    reason = f"{said}; {name} adds up those of {parts} parts of the batch"
    fix = f"If the loss is a mean, divide that of each part by {parts} before its backward()."
    return Judged(origin, "semantics", "BS507", (reason,), fix)


def _maker(flow: Flow, losses: Sequence[int]) -> Operation | None:
    return flow.operations.get(flow.trace.values[losses[0]].maker) if losses else None


def with_ratios(judged: Judged, walk: Walk) -> Judged:
    """Return an origin in a backward pass with the gradients that are those of A, times one number."""
    if judged.code != "BS507" or judged.origin.kind == "held":
        return judged
    a, b = walk.distances.a, walk.distances.b
    named: dict[str, list[str]] = defaultdict(list)
    apart = 0
    for ours, theirs in walk.held("end"):
        if ours.kind == "grad" and not walk.distances(ours.value, theirs.value).same:
            apart += 1
            ratio = factor(a, b, a.values[ours.value], b.values[theirs.value])
            if ratio is not None:
                named[f"{ratio:.4g}"].append(a.called(ours.name))
    return replace(judged, reasons=(*judged.reasons, *(_said(*each, apart) for each in named.items())))


def _said(ratio: str, names: Sequence[str], apart: int) -> str:
    if len(names) == apart and apart > 1:
        return f"every gradient that differs is that of A times {ratio} in B"
    more = f" and of {counted(len(names) - 1, 'more parameter')}" if len(names) > 1 else ""
    return f"the gradient of {names[0]}{more} in B is that of A times {ratio}"
