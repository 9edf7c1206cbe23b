"""A weight that one program shares between modules, where the other has two that only begin alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from backsight.traces.judging import Judged
from backsight.traces.origins import UNSEEN, Origin, Walk
from backsight.traces.pairing import replaced, weights_of
from backsight.traces.records import Held, Operation, Trace

Bits = tuple[tuple[int, ...], int]


def judged_tie(walk: Walk, ends: Sequence[Sequence[int]]) -> Judged | None:
    """Return the origin of gradients that differ because a weight of one program is two in the other."""
    a, b = walk.distances.a, walk.distances.b
    ours, theirs = _by_bits(a, walk.step), _by_bits(b, walk.step)
    for mine, others, name in ((ours, theirs, "B"), (theirs, ours, "A")):
        for bits, one in mine.items():
            if len(one) != 1 or len(apart := others.get(bits, [])) < 2:
                continue
            held = (one[0], apart[0]) if name == "B" else (apart[0], one[0])
            grads = _grad(a, walk.step, held[0].name), _grad(b, walk.step, held[1].name)
            if grads[0] in ends[0] or grads[1] in ends[1]:
                return _judged(walk, one[0], apart, name, grads)
    return None


def _by_bits(trace: Trace, step: int) -> dict[Bits, list[Held]]:
    """Return the weights that have a gradient and do not hold one number alone, by their bits, each memory once."""
    found: dict[Bits, dict[int, Held]] = defaultdict(dict)
    gone = replaced(trace, step, weights_of(trace, step))
    for each in trace.held:
        value = trace.values[each.value]
        if each.name not in gone and (each.step, each.at, each.kind) == (step, "start", "weight") and value.mark >= 0:
            row = trace.prints[value.mark]
            if row["stats"]["min"] < row["stats"]["max"] and _grad(trace, step, each.name) >= 0:
                found[value.shape, int(row["hash"])].setdefault(each.value, each)
    return {bits: list(held.values()) for bits, held in found.items()}


def _grad(trace: Trace, step: int, name: str) -> int:
    held = (each for each in trace.held if (each.step, each.at, each.kind) == (step, "end", "grad"))
    return next((each.value for each in held if each.name == name), -1)


def _judged(walk: Walk, one: Held, apart: Sequence[Held], name: str, values: tuple[int, int]) -> Judged:
    """Return the origin. one: the weight that is shared; apart: what it is in the other program, called `name`."""
    whole, parts = (walk.distances.a, walk.distances.b) if name == "B" else (walk.distances.b, walk.distances.a)
    again, alone = _last_user(whole, walk.step, one), _last_user(parts, walk.step, apart[-1])
    copied = parts.made.get(apart[-1].value, UNSEEN).place
    at = (UNSEEN.place, copied) if name == "B" else (copied, UNSEEN.place)
    users = (again, alone) if name == "B" else (alone, again)
    first, last = parts.called(apart[0].name), parts.called(apart[-1].name)
    owner = "" if "" in parts.called.by_path else "model."
    other = "A" if name == "B" else "B"
    reason = (
        f"{other} shares one weight, {whole.called(one.name)}; {name} has {len(apart)} that start equal, {first} and "
        f"{last}, each with a gradient of its own"
    )
    origin = Origin(
        "held", walk.step, "backward", *users, values, walk.distances(*values), names=(f"grad {one.name}",), at=at
    )
    fix = f"Share it in {name} as well: {owner}{last} = {owner}{first}."
    return Judged(origin, "semantics", "BS507", (reason,), fix)


def _last_user(trace: Trace, step: int, held: Held) -> Operation | None:
    """Return the last operation of the forward pass that takes a weight."""
    users = [each for each in trace.operations
             if (each.step, each.phase) == (step, "forward") and held.value in each.inputs]  # fmt: skip
    return users[-1] if users else None
