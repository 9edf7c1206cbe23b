"""Operations that run again in the backward pass, as activation checkpointing does, and compute something else then."""

from __future__ import annotations

from collections import defaultdict

from backsight.traces.distance import Distances
from backsight.traces.judging import Judged
from backsight.traces.origins import Origin, Walk
from backsight.traces.pairing import RANDOM, VIEWS, plain_name
from backsight.traces.records import Operation, Trace
from backsight.traces.rounding import rounding

Key = tuple[str, str]


def recomputed_otherwise(trace: Trace, step: int) -> tuple[Operation, Operation] | None:
    """Return the first operation that computes something else when it runs again, and how it ran in the forward pass.

    What it is given was there in the forward pass, too: else it only inherits.
    """
    forward: dict[Key, list[Operation]] = defaultdict(list)
    known: set[int] = set()
    distances = Distances(trace, trace)
    for each in (one for one in trace.operations if one.step == step):
        if each.phase == "forward":
            forward[_key(each)].append(each)
            known.update(_hashes(trace, (*each.inputs, *each.outputs)))
        elif each.phase == "recomputation" and plain_name(each.op) not in VIEWS | {"module"}:
            made = [place for place, number in enumerate(each.outputs) if trace.values[number].mark >= 0]
            if not made or not known.issuperset(_hashes(trace, set(each.inputs) - set(each.outputs))):
                continue
            if known.issuperset(_hashes(trace, each.outputs)) or not forward[_key(each)]:
                continue
            apart, first = min(((_apart(distances, one, each, made), one) for one in forward[_key(each)]),
                               key=lambda pair: pair[0])  # fmt: skip
            if apart > rounding(trace, each):
                return each, first
            known.update(_hashes(trace, each.outputs))
    return None


def _key(operation: Operation) -> Key:
    return plain_name(operation.op), operation.module


def _hashes(trace: Trace, numbers: object) -> set[int]:
    marks = [trace.values[each].mark for each in numbers]  # type: ignore[attr-defined]
    return {int(trace.prints[each]["hash"]) for each in marks if each >= 0}


def _apart(distances: Distances, first: Operation, again: Operation, made: list[int]) -> float:
    if len(first.outputs) != len(again.outputs):
        return float("inf")
    return max(distances(first.outputs[place], again.outputs[place]).relative for place in made)


def judged_recomputation(walk: Walk) -> Judged | None:
    """Return the origin of gradients that differ because one program computes something else in its backward pass."""
    a, b = walk.distances.a, walk.distances.b
    ours, theirs = recomputed_otherwise(a, walk.step), recomputed_otherwise(b, walk.step)
    if (ours is None) == (theirs is None):
        return None
    again, first = ours or theirs  # type: ignore[misc]
    partners, other = (walk.pairing.to_b, b) if ours is not None else (walk.pairing.to_a, a)
    partner = next((each for each in other.operations if each.number == partners.get(first.number)), None)
    name = "A" if ours is not None else "B"
    result = "draws other random numbers" if plain_name(again.op) in RANDOM else "computes something else"
    reasons = [f"{name} runs this again in its backward pass, and {result} than in its forward pass"]
    if plain_name(again.op) in RANDOM:
        reasons.append(
            "`checkpoint(..., preserve_rng_state=False)` does that, and so does a torch.Generator of its own"
        )
    there = partner if partner is not None and partner.outputs else None
    pair = (again.outputs[-1], (there or first).outputs[-1])
    if there is None:  # of the same program, then
        origin = _alone(walk, again, in_a=ours is not None)
    else:
        one, another = (again, there) if ours is not None else (there, again)
        values = pair if ours is not None else (pair[1], pair[0])
        origin = Origin("operation", walk.step, "backward", one, another, values, walk.distances(*values))
    return Judged(origin, "semantics", "BS507", tuple(reasons))


def _alone(walk: Walk, again: Operation, *, in_a: bool) -> Origin:
    """Return the origin where the other program has no such operation."""
    grads = [(ours.value, theirs.value) for ours, theirs in walk.held("end") if ours.kind == "grad"]
    values = max(grads, key=lambda pair: walk.distances(*pair).relative)
    only = {"only_a": (again,)} if in_a else {"only_b": (again,)}
    return Origin("program", walk.step, "backward", again, again, values, walk.distances(*values), **only)  # type: ignore[arg-type]
