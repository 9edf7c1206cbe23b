"""What a difference does: whether the loss, the gradients or the updates of a step differ, and where that begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from backsight.traces.cuts import judged_cut
from backsight.traces.data import as_data
from backsight.traces.draws import with_draws
from backsight.traces.enclosed import Enclosed
from backsight.traces.flow import Flow, Values, flows
from backsight.traces.growth import Point, losses_of
from backsight.traces.judging import Judged, hyperparameters_differ, modes
from backsight.traces.origins import Origin, Walk, differing
from backsight.traces.pairing import RANDOM, plain_name, replaced, weights_of
from backsight.traces.recomputing import judged_recomputation
from backsight.traces.records import Operation, Phase, Trace
from backsight.traces.scaling import judged_parts, with_ratios
from backsight.traces.sharing import judged_tie
from backsight.traces.unfounded import differ_by_rounding, gradients_of_one_shape, least_gradient, of_noise
from backsight.traces.updating import (
    Given,
    Update,
    given_otherwise,
    judged_update,
    updated_otherwise,
    with_reasons,
)

_TOGETHER = 1e-4
"""The relative difference of the norms of gradients that have no counterpart, as of weights that are one in B."""

_UPDATED, _MOST_UPDATED = 1e-2, 0.3
"""The median and the largest relative difference of updates beyond which rounding, however enlarged by Adam, does not
explain them: single elements of gradients are nothing but rounding, and their signs are updates."""

_NEARLY = 0.9
"""The share of operations of both programs that have a partner, from which on operations are compared one by one."""

_LOW = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2}


@dataclass(frozen=True)
class Effect:
    """What of a step differs beyond rounding.

    known: whether there is anything that counts in both, as a loss; of else nothing can be said.
    loss, gradients, updates: whether these differ.
    flows: both steps, followed from what differs: `ends`.
    changed: the operations that make other gradients of those that both have, as clipping does.
    """

    known: bool
    loss: bool
    gradients: bool
    updates: bool
    buffers: bool
    flows: tuple[Flow, Flow]
    ends: tuple[tuple[int, ...], tuple[int, ...]]
    changed: tuple[Operation | None, Operation | None] = (None, None)

    @property
    def differs(self) -> bool:
        return self.loss or self.gradients or self.updates or self.buffers


def effect(walk: Walk, points: Sequence[Point], otherwise: Sequence[Update], given: Given) -> Effect:
    """Find what of a step differs; otherwise, given: the parameters that are updated otherwise, and why."""
    a, b = walk.distances.a, walk.distances.b
    both = flows(a, b, walk.step)
    losses = [losses_of(trace, walk.step) for trace in (a, b)]
    known = all(losses)
    grads = _gradients(walk, both)
    alone = [[each for each in held if each not in flow.ok] for held, flow in zip(losses, both, strict=True)]
    held = all(_last(trace, walk.step, "grad") for trace in (a, b))
    loss = known and any(alone) and (any(grads) or not held)  # that of a part of a batch is none of both
    buffers = _buffers(walk, both)
    updates = not any(grads) and (bool(otherwise or given) or _updates(walk, both, points))
    if loss:
        ends: Sequence[Sequence[int]] = alone
    elif any(grads):
        ends = grads
    elif updates:
        ends = _ends(walk, "weight")
        if otherwise:
            ends = [each.ours.value for each in otherwise], [each.theirs.value for each in otherwise]
    else:
        ends = ((), ())
    for flow, each in zip(both, ends, strict=True):
        flow.follow(each)
    changed = _changed(both, grads) if any(grads) and not loss else (None, None)
    return Effect(known, loss, any(grads), updates, buffers, both, (tuple(ends[0]), tuple(ends[1])), changed)


def _changed(both: tuple[Flow, Flow], grads: Sequence[Sequence[int]]) -> tuple[Operation | None, Operation | None]:
    """Return the operations that change gradients after a backward pass, where the programs have others there."""
    a, b = (flow.changing(each) for flow, each in zip(both, grads, strict=True))
    names = {plain_name(each.op) for each in (a, b) if each is not None}
    return (a, b) if len(names) == 2 or (a is None) != (b is None) else (None, None)


def _last(trace: Trace, step: int, kind: str) -> dict[str, int]:
    """Return what is held at the end, but for models in whose place the step uses others."""
    found = {each.name: each.value for each in trace.held if (each.step, each.at, each.kind) == (step, "end", kind)}
    gone = replaced(trace, step, weights_of(trace, step))
    return {name: value for name, value in found.items() if name not in gone}


def _ends(walk: Walk, kind: str) -> tuple[list[int], list[int]]:
    return (
        list(_last(walk.distances.a, walk.step, kind).values()),
        list(_last(walk.distances.b, walk.step, kind).values()),
    )


def _gradients(walk: Walk, both: tuple[Flow, Flow]) -> tuple[list[int], list[int]]:
    """Return the gradients without counterpart, where those of one shape are among them, else if they differ at all."""
    every = _ends(walk, "grad")
    least = least_gradient(walk, both)
    near: set[tuple[int, int]] = set()
    pairs: list[tuple[int, int]] = []
    for ours, theirs in gradients_of_one_shape(walk):
        pairs.append((ours.value, theirs.value))
        if differ_by_rounding(walk, both, ours, theirs, least):
            near.update(((0, ours.value), (1, theirs.value)))
    left = tuple(
        [each for each in ends if each not in flow.ok and (place, each) not in near and flow.norm([each]) > least]
        for place, (ends, flow) in enumerate(zip(every, both, strict=True))
    )
    if not any(left):
        return [], []
    alike = [(x, y) for x, y in pairs if x in left[0] or y in left[1]]
    if alike:
        return [x for x, _ in alike], [y for _, y in alike]
    for together in (left, every):
        sizes = [flow.norm(each) for flow, each in zip(both, together, strict=True)]
        if abs(sizes[0] - sizes[1]) <= _TOGETHER * max(sizes):
            return [], []
    return left[0], left[1]


def _buffers(walk: Walk, both: tuple[Flow, Flow]) -> bool:
    """Whether a buffer that the step has written to, or that was another before, is another in B."""
    began = {(each.kind, each.name): each.value for each in walk.distances.a.held
             if (each.step, each.at) == (walk.step, "start")}  # fmt: skip
    for ours, theirs in walk.held("end"):
        if ours.kind != "buffer" or ours.value in both[0].ok or theirs.value in both[1].ok:
            continue
        before = began.get((ours.kind, ours.name))
        marks = [walk.distances.a.values[each].mark for each in (before, ours.value) if each is not None]
        prints = walk.distances.a.prints
        if len(marks) == 2 and min(marks) >= 0 and prints[marks[0]]["hash"] != prints[marks[1]]["hash"]:
            return True
    return False


def _updates(walk: Walk, both: tuple[Flow, Flow], points: Sequence[Point]) -> bool:
    """Whether weights are updated otherwise; of those with another name in B, the pair itself may be wrong."""
    sure = {
        ours.name
        for ours, theirs in walk.held("end")
        if ours.kind == "weight"
        and (ours.name == theirs.name or (ours.value not in both[0].ok and theirs.value not in both[1].ok))
    }
    noise = of_noise(walk, both)
    told = [each for each in points if each.what == "update" and each.name not in noise]
    found = [each.relative if each.name in sure else 0.0 for each in told]
    if not found:
        return False
    if max(found) > _MOST_UPDATED or median(found) > _UPDATED:
        return True
    return hyperparameters_differ(walk.step, walk.distances.a, walk.distances.b)


def by_effect(every: Sequence[Judged], walk: Walk, points: Sequence[Point], after: bool) -> tuple[Judged, ...]:
    """Return the origins as what comes of them shows: without effect they are no mistakes, and the first comes first.

    after: whether an earlier step differs beyond rounding, so that this one only inherits.
    """
    if after and not _nearly(walk):
        return tuple(each for each in every if each.cls == "noise")
    otherwise = [] if after else updated_otherwise(walk)
    given = {} if after else given_otherwise(walk)
    if not otherwise and not given and all(each.cls == "noise" for each in every) and _nearly(walk):
        return () if _identical(walk, points) else tuple(every)
    found = effect(walk, points, otherwise, given)
    told = _told(every, walk, found)
    if found.updates and not any(each.cls == "semantics" for each in told):
        update = judged_update(walk, otherwise, given)
        told = told if update is None else (update, *told)
    told = tuple(with_ratios(with_reasons(each, walk, given), walk) for each in told)
    told = with_draws(as_data(told, every, walk), walk)
    return () if all(each.cls == "noise" for each in told) and _identical(walk, points) else told


def _identical(walk: Walk, points: Sequence[Point]) -> bool:
    """Whether all that counts agrees to the last bit: what differs then is memory that a kernel works in, or a result
    that is used for nothing."""
    known = any(each.what in ("grad", "weight") for each in points)
    held = all(walk.distances(ours.value, theirs.value).same for ours, theirs in walk.held("end"))
    return known and held and not any(each.relative for each in points)


def _told(every: Sequence[Judged], walk: Walk, found: Effect) -> tuple[Judged, ...]:
    if not found.known:
        return tuple(every)
    if not found.differs:
        return tuple(each if _counts_anyway(each, walk) else _harmless(each) for each in every)
    if found.gradients and not found.loss and not any(found.changed):
        cut = (
            judged_recomputation(walk)
            or judged_tie(walk, found.ends)
            or judged_cut(walk, found.flows, found.ends)
            or judged_parts(walk, found.flows, found.ends)
        )
        if cut is not None:
            return (cut, *(each for each in every if each.cls == "noise" and each.origin.kind != "start"))
    if _nearly(walk):
        return tuple(every)
    return _by_flow(every, walk, found)


def _nearly(walk: Walk) -> bool:
    """Whether the programs are nearly the same, operation by operation; autocast puts casts between them."""
    pairs = len(walk.pairing.to_b)
    a, b = (
        sum(each.step == walk.step and plain_name(each.op) != "_to_copy" for each in trace.operations)
        for trace in (walk.distances.a, walk.distances.b)
    )
    return pairs >= _NEARLY * max(a, b)


def _counts_anyway(each: Judged, walk: Walk) -> bool:
    """Whether programs that are otherwise the same are told of a difference that has no effect here."""
    if each.cls == "noise":
        return True
    return _nearly(walk) and (each.origin.decides or each.origin.kind == "start" or each.cls == "precision")


def _harmless(each: Judged) -> Judged:
    again = "everything computed from it agrees again, up to rounding: different operations for the same result"
    return replace(each, cls="noise", code="BS503", reasons=(again,))


def _by_flow(every: Sequence[Judged], walk: Walk, found: Effect) -> tuple[Judged, ...]:
    """Return the origins that are on the way to what differs, with the first of all before them."""
    starts, first = _started(every, walk, found), _first(walk, found)
    if starts:
        return tuple(starts)
    kept = [each for each in every if each.cls != "noise" and each.code == "BS508"] if found.updates else []
    if first is None:
        return tuple(kept or every)
    first = next((each for each in every if _is_at(each, first)), first)
    return (first, *(each for each in every if each.cls == "noise" and each.origin.kind != "start"))


def _is_at(each: Judged, first: Judged) -> bool:
    """Whether operations that were compared one by one say the same of an operation, and so more of it."""
    here, there = each.origin, first.origin
    if there.a is None or (each.cls, each.code, here.phase) != (first.cls, first.code, there.phase):
        return False
    return there.a.number in [one.number for one in (*here.only_a[:1], here.a) if one is not None]


def _started(every: Sequence[Judged], walk: Walk, found: Effect) -> list[Judged]:
    """Return what was different before the step, where that matters."""
    began = [
        {f"{each.kind} {each.name}" for each in flow.trace.held
         if (each.step, each.at) == (walk.step, "start") and each.value in flow.bad}
        for flow in found.flows
    ]  # fmt: skip
    theirs = {f"{ours.kind} {ours.name}" for ours, other in walk.held("start") if other.value in found.flows[1].bad}
    both, either = began[0] & theirs, began[0] | theirs  # what was lost in one may still lie in a model beside it
    starts = [each for each in every if each.origin.kind == "start"]
    others = [each for each in starts if (either if each.origin.lost else both) & set(each.origin.names)]
    return others or [each for each in every if each.origin.kind == "input" and _is_bad(each.origin, found)]


def _is_bad(origin: Origin, found: Effect) -> bool:
    return all(number in flow.bad for number, flow in zip(origin.values, found.flows, strict=True))


def _first(walk: Walk, found: Effect) -> Judged | None:
    """Return the first operations whose results have no counterpart though what they take has."""
    sides = _rooted(found)
    if (sides[0] is None and sides[1] is None) or not all(found.ends):
        return None
    a, b = sides
    phases = [each.phase for each in sides if each is not None]
    phase = next((each for each in ("forward", "recomputation", "backward", "optimizer") if each in phases), phases[0])
    values = [_made(*each) for each in zip(found.flows, sides, found.ends, strict=True)]
    apart = walk.distances(*values)
    same = a is not None and b is not None and plain_name(a.op) == plain_name(b.op)
    origin = Origin(
        "operation" if same else "program",
        walk.step,
        phase,
        a if a is not None else b,
        b,
        (values[0], values[1]),
        apart,
        only_a=() if same or a is None else (a,),
        only_b=() if same or b is None else (b,),
        arguments=differing(a, b) if same and a is not None and b is not None else (),
        by_values=True,
    )
    return _judged(origin, found, a, b, walk.pairing.modules)


def _rooted(found: Effect) -> tuple[Operation | None, Operation | None]:
    """Return the first roots: of the forward pass where the loss differs, else of what both have one in, if anything.

    What of a gradient is computed in other parts has no counterpart either, and only what follows it tells.
    """
    if any(found.changed):
        return found.changed
    roots = _not_enclosed(found.flows[0]), _not_enclosed(found.flows[1])
    order: tuple[tuple[Phase, ...], ...] = (("backward",), ("forward", "recomputation"), ("optimizer",))
    if found.loss:
        order = (("forward", "recomputation"), ("backward",), ("optimizer",))
    firsts = [[next((each for each in mine if each.phase in phases), None) for mine in roots] for phases in order]
    forward = [_before_backward(flow, mine) for flow, mine in zip(found.flows, roots, strict=True)]
    if found.gradients and all(forward):  # whose effect on the loss is less than rounding
        return forward[0], forward[1]
    if found.loss or found.updates:
        firsts = firsts[:1] if any(firsts[0]) and found.loss else firsts[::-1]
    if (both := next((each for each in firsts if all(each)), None)) is not None:
        return both[0], both[1]
    either = [next((each[side] for each in firsts if each[side] is not None), None) for side in (0, 1)]
    return either[0], either[1]


def _not_enclosed(flow: Flow) -> tuple[Operation, ...]:
    """Return the roots that are no part of another way to compute the same, if there are others."""
    enclosed = Enclosed(flow.trace, list(flow.operations.values()), lambda number: number in flow.ok)
    return tuple(each for each in flow.roots if not enclosed(each)) or flow.roots


def _before_backward(flow: Flow, roots: Sequence[Operation]) -> Operation | None:
    start = next((each.number for each in flow.operations.values() if each.phase == "backward"), -1)
    return next((each for each in roots if each.phase == "forward" and each.number < start), None)


def _made(flow: Flow, root: Operation | None, ends: Sequence[int]) -> int:
    if root is None:
        return ends[0]
    return next((each for each in root.outputs if each in flow.bad), root.outputs[0])


def _ended(origin: Origin, found: Effect) -> list[str]:
    """Say which gradient or weight it is that differs, where lines may not tell."""
    if origin.phase not in ("backward", "optimizer"):
        return []
    told = []
    for flow, name, ends in zip(found.flows, "AB", found.ends, strict=True):
        names = [flow.trace.called.held(flow.trace.values[each].name) for each in ends if each in flow.bad]
        held = {each.value: f"{each.kind} {flow.trace.called(each.name)}" for each in flow.trace.held}
        named = next(
            (held[each] for each in ends if each in held and each not in flow.ok), next(filter(None, names), "")
        )
        if named:
            told.append(f"{named} in {name}".replace("grad ", "the gradient of ", 1))
    return [f"what differs first at the end is {' and '.join(told)}"] if told else []


def _judged(
    origin: Origin, found: Effect, a: Operation | None, b: Operation | None, renamed: Mapping[str, str]
) -> Judged:
    if (low := _lower(found, (a, b))) is not None:
        return Judged(origin, "precision", "BS502", (low,))
    named = [each for each in (a, b) if each is not None]
    mode = [*modes(origin, found.flows[0].trace, found.flows[1].trace, renamed)]
    if not mode and any(plain_name(each.op) in RANDOM for each in named):
        return Judged(origin, "semantics", "BS506", ())
    if any(found.changed):
        changes = [f"{name} calls {each.short}" for name, each in zip("AB", (a, b), strict=True) if each is not None]
        told = "the gradients agree until they are changed before the optimizer steps"
        return Judged(origin, "semantics", "BS501", (f"{told}: {' and '.join(changes)}",))
    code = {"optimizer": "BS508", "backward": "BS507"}.get(origin.phase, "BS501")
    arguments = [f"`{name}` is {ours} in A and {theirs} in B" for name, ours, theirs in origin.arguments]
    return Judged(origin, "semantics", code, (*mode, *arguments, *_ended(origin, found)))


def _lower(found: Effect, roots: tuple[Operation | None, Operation | None]) -> str | None:
    """Say that one of the programs computes in a coarser dtype, where that explains what differs."""
    for flow, other, root, name in ((*found.flows, roots[0], "A"), (*found.flows[::-1], roots[1], "B")):
        if root is None:
            continue
        dtypes = {flow.trace.values[each].dtype for each in root.outputs if each in flow.bad}
        low = next((each for each in dtypes if each in _LOW), None)
        if low is None:
            continue
        others = Values(
            other.trace, [each for one in other.operations.values() for each in (*one.inputs, *one.outputs)]
        )
        near = (others.alike(flow.trace, each, _LOW[low]) for each in root.outputs if each in flow.bad)
        if any(each is not None and other.trace.values[each].dtype != low for each in near):
            casts = plain_name(root.op) in ("_to_copy", "to")
            return f"only {name} {'casts to' if casts else 'computes in'} {low}"
    return None
