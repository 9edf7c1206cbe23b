"""`diff`: compares two traces, or the traces of two commands."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np

from backsight.text import counted
from backsight.traces.across import across
from backsight.traces.agreement import FLOOR, JUMP, Agreement, agreement
from backsight.traces.difference import Difference, Parted, in_the_loss, lasting
from backsight.traces.distance import Distances
from backsight.traces.effects import by_effect
from backsight.traces.growth import as_called, growth, losses_of_both, number_of, renamed, settled, updated_alike
from backsight.traces.inheriting import without_inherited
from backsight.traces.judging import Judged, judged
from backsight.traces.origins import Origin, Walk
from backsight.traces.picture import pictured
from backsight.traces.records import Trace
from backsight.traces.store import open_trace, ranks_of
from backsight.traces.telling import findings

Source = Trace | str | os.PathLike[str]


def diff(a: Source, b: Source, *, rank: int = 0) -> Difference:
    """Find where two trainings diverge: the first operation whose inputs agree and whose result does not, and why.

    ```python
    difference = bs.diff("traces/old", "traces/new")
    print(difference)               # or difference.html(), .to_json(), .cls, .first
    ```

    Args:
        a, b: traces, or the folders that `trace` and `backsight run --trace` wrote.
        rank: which process of several, where both trainings have as many. Where they do not, what all ranks hold is
            compared: gradients averaged, shards joined.

    Operations are paired by phase, module and operator, so that renamed modules, inlined functions, and operations
    that only one program has are looked past. What differs only as its inputs do is folded. The class says whether it
    matters: "noise" is what rounding explains, "precision" another dtype or mode of matrix products, "semantics" all
    else.

    Raises:
        TraceError: if there is no such trace, or it cannot be read.
        TypeError: if it is neither a trace nor a path.
    """
    one, other = _opened("a", a, rank), _opened("b", b, rank)
    ranks = _every_rank(one, a), _every_rank(other, b)
    notes = [f"{name} ({trace.path}): {note}" for name, trace in (("A", one), ("B", other)) for note in trace.notes]
    common = [step for step in one.steps if step in other.steps]
    agreed = agreement(one, other) if len(ranks[0]) == len(ranks[1]) else None
    if not common:
        told = " and ".join(f"{name} has {_listed(trace.steps)}" for name, trace in (("A", one), ("B", other)))
        notes.append(f"the traces have no step in common: {told}")
        return _noted(Difference(one.path, other.path, (), (), tuple(notes), agreed))
    notes += _only(one, other)
    if len(ranks[0]) != len(ranks[1]):
        return _across(ranks, common, notes)
    if _strangers(one, other):
        notes.append("no module has the same name in both programs")
    distances = Distances(one, other)
    with np.errstate(all="ignore"):  # statistics may be infinite
        steps: list[Parted] = []
        folded: set[Hashable] = set()
        for step in common:
            after = any(map(_grave, steps))
            steps.append(_parted(distances, step, folded, first=not steps, after=after, agreed=agreed))
        said = findings([each for step in steps for each in step.origins], distances)
    return _noted(
        Difference(one.path, other.path, tuple(steps), said, tuple(notes), agreed, (one.called, other.called))
    )


_HOW_TO_END = (
    "a step ends with a step of a PyTorch optimizer, or where the program writes to all of the parameters it used; "
    "where it does neither, trace both with backsight.trace(...) and call .step() at the end of each"
)


def _noted(found: Difference) -> Difference:
    ending = [_HOW_TO_END] if found.uncompared else []
    return replace(found, notes=(*found.notes, *lasting(found), *in_the_loss(found), *ending))


def _every_rank(trace: Trace, source: Source) -> list[Trace]:
    """Return the traces of all ranks, where all are there."""
    if isinstance(source, Trace) or trace.head.get("world", 1) == 1:
        return [trace]
    numbers = ranks_of(source)
    return [open_trace(source, number) for number in numbers] if len(numbers) == trace.head.get("world") else [trace]


def _across(ranks: tuple[list[Trace], list[Trace]], common: list[int], notes: list[str]) -> Difference:
    """Compare trainings of different numbers of ranks."""
    with np.errstate(all="ignore"):
        steps, distances = across(*ranks, common)
        said = findings([each for step in steps for each in step.origins], distances)
    counts = " and ".join(f"{counted(len(each), 'rank')} in {name}" for name, each in zip("AB", ranks, strict=True))
    notes = [*dict.fromkeys((*notes, *distances.a.notes, *distances.b.notes))]
    notes.append(f"{counts}: weights, gradients and losses are compared, of all ranks together, and no operations")
    called = ranks[0][0].called, ranks[1][0].called
    return Difference(ranks[0][0].path, ranks[1][0].path, steps, said, tuple(notes), called=called)


def _grave(step: Parted) -> bool:
    return any(each.cls != "noise" for each in step.origins)


def _parted(
    distances: Distances, step: int, folded: set[Hashable], *, first: bool, after: bool, agreed: Agreement | None
) -> Parted:
    """Compare a step. folded: what was no finding in the steps before though it differs, so that it is none later."""
    walk = Walk(distances, step).run(first=first)
    points = growth(walk)
    same, alike = settled(walk, points), updated_alike(points)
    told = [each for each in walk.origins if not _is_grown(each, agreed)]
    modules = walk.pairing.modules
    every = [judged(each, distances, alike if each.phase == "optimizer" else same, modules) for each in told]
    origins = by_effect(without_inherited(every, walk), walk, points, after)
    origins = tuple(each for each in origins if not after or each.cls == "noise" or _key(each.origin) not in folded)
    kept = {_key(each.origin) for each in origins}
    folded.update(key for each in every if (key := _key(each.origin)) not in kept and each.origin.kind == "program")
    a, b = (sum(each.step == step for each in trace.operations) for trace in (distances.a, distances.b))
    losses = [number_of(*each) for each in zip((distances.a, distances.b), losses_of_both(walk), strict=True)]
    pairs = len(walk.pairing.to_b)
    return Parted(
        step,
        walk.agree,
        walk.inherited + len(every) - len(origins),
        a - pairs,
        b - pairs,
        _ordered(origins),
        as_called(points, distances.a),
        (losses[0], losses[1]),
        renamed(walk),
        " and ".join(name for name, trace in (("A", distances.a), ("B", distances.b)) if walk.step not in trace.whole),
        pictured(walk, origins) if origins and not after else None,
    )


def _key(origin: Origin) -> Hashable:
    """Return what tells that a later step has the same origin: its operations and lines."""
    alone = [[(each.op, each.module, str(each.place)) for each in mine] for mine in (origin.only_a, origin.only_b)]
    return origin.kind, origin.phase, *map(str, origin.places), *map(tuple, alone)


def _is_grown(origin: Origin, agreed: Agreement | None) -> bool:
    """Whether what differs before a step is rounding of the steps before that, which agree but for it."""
    if agreed is None or origin.kind not in ("start", "input") or origin.step == 0:
        return False
    parted = agreed.beyond.step if agreed.beyond is not None else agreed.steps
    return origin.step <= parted and origin.apart.relative <= JUMP * max(agreed.noise, FLOOR)


def _ordered(origins: tuple[Judged, ...]) -> tuple[Judged, ...]:
    """Return origins in the order of A; what was there before the step is first."""
    last = 1 << 60
    return tuple(
        sorted(
            origins,
            key=lambda each: -1 if each.origin.kind == "start" else each.origin.a.number if each.origin.a else last,
        )
    )


def _opened(argument: str, source: Source, rank: int) -> Trace:
    if isinstance(source, Trace):
        return source
    if isinstance(source, (str, os.PathLike)):
        return open_trace(source, rank)
    raise TypeError(
        f"{argument} must be a trace or the folder of one, not {type(source).__name__}: "
        "diff('traces/old', 'traces/new')."
    )


def _only(a: Trace, b: Trace) -> list[str]:
    found = []
    for name, mine, others in (("A", a, b), ("B", b, a)):
        if only := [step for step in mine.steps if step not in others.steps]:
            found.append(f"only {name} has {_listed(only)}, which cannot be compared")
    versions = [str(trace.head.get("torch", "unknown"))[:40] for trace in (a, b)]
    if versions[0] != versions[1]:
        found.append(f"PyTorch is {versions[0]} in A and {versions[1]} in B")
    return found


def _strangers(a: Trace, b: Trace) -> bool:
    """Whether both programs have modules, and none has the name of another's."""
    ours, theirs = ({each.module for each in trace.operations if each.module} for trace in (a, b))
    return bool(ours and theirs) and not ours & theirs


def _listed(steps: Iterable[int]) -> str:
    numbers = [str(step) for step in steps]
    return f"step {', '.join(numbers)}" if numbers else "no step"
