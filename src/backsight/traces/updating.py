"""Parameters that are updated otherwise though their gradients agree: by hyperparameters, by state, by what is done.

Each is looked at by itself: gradients that are nothing but rounding, as that of a bias before a softmax, make updates
that are nothing but rounding, and say nothing of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.text import listed
from backsight.traces.distance import norm, unit
from backsight.traces.judging import UNIMPORTANT, Judged, shown_argument
from backsight.traces.origins import Origin, Walk
from backsight.traces.pairing import replaced, weights_of
from backsight.traces.records import BUCKETS, Held, Trace

_DETERMINED = 1e-4
"""The relative difference of gradients up to which they count as determined: of these an update is a function."""

_APART = 3e-3
"""The relative difference of updates beyond which such gradients do not explain it."""

_AMPLIFIED = 100.0
"""By how much an update may enlarge the relative difference of its gradient."""

_ROUNDED_STATE = 1e-2
"""The relative difference of state beyond which it is none of rounding in the steps before."""

_ROUNDED = 4.0
"""Roundings of a weight that its change is off by at most."""

_SPREAD = 0.75
"""The share of a parameter that must differ: single elements whose gradient is next to 0 may take the other sign."""


Given = Mapping[str, list[tuple[str, str]]]
"""In which hyperparameters optimizers differ, by what to say of it: the parameters, as A and B call them."""


@dataclass(frozen=True)
class Update:
    """A parameter that is updated otherwise: what both hold at the end, and how far gradients and updates are apart."""

    ours: Held
    theirs: Held
    gradient: float
    apart: float


def updated_otherwise(walk: Walk) -> list[Update]:
    """Return the parameters whose gradients agree and whose updates do not, the furthest apart first."""
    began = {ours.name: (ours, theirs) for ours, theirs in walk.held("start") if ours.kind == "weight"}
    grads = {ours.name: walk.distances(ours.value, theirs.value).relative
             for ours, theirs in walk.held("end") if ours.kind == "grad"}  # fmt: skip
    states = _rounded_states(walk)
    found = []
    for ours, theirs in walk.held("end"):
        gradient = grads.get(ours.name, 1.0)
        if ours.kind != "weight" or ours.name not in began or gradient > _DETERMINED:
            continue
        apart = _systematically(walk, began[ours.name], (ours, theirs))
        rounded: float = max(gradient, states.get(ours.name, 0.0))
        if apart > max(_APART, _AMPLIFIED * rounded):
            found.append(Update(ours, theirs, gradient, apart))
    return sorted(found, key=lambda each: -each.apart)


def _rounded_states(walk: Walk) -> dict[str, float]:
    """Return how far apart the states of optimizers begin, by parameter, as far as rounding of earlier steps may be."""
    found: dict[str, float] = {}
    for ours, theirs in walk.held("start"):
        if ours.kind == "state":
            name, apart = ours.name.partition(" of ")[2], walk.distances(ours.value, theirs.value).relative
            found[name] = max(found.get(name, 0.0), apart if apart < _ROUNDED_STATE else 0.0)
    return found


def _systematically(walk: Walk, began: tuple[Held, Held], ended: tuple[Held, Held]) -> float:
    """Return the relative difference of the changes of a weight; 0 where only some of its elements differ."""
    a, b = walk.distances.a, walk.distances.b
    x, y = _change(a, began[0], ended[0]), _change(b, began[1], ended[1])
    if x is None or y is None or x.shape != y.shape:
        return 0.0
    value = a.values[ended[0].value]
    rounded = _ROUNDED * unit(value.dtype) * norm(a, value) / sqrt(max(1, x.size))
    size = max(float(np.linalg.norm(x)), float(np.linalg.norm(y)))
    difference = np.abs(x - y)
    parts = int(np.count_nonzero((x != 0) | (y != 0)))
    level = max(rounded, _APART * size / sqrt(max(1, parts)) / 4)
    if not size or np.count_nonzero(difference > level) < _SPREAD * max(1, parts):
        return 0.0
    apart = float(np.linalg.norm(difference))
    return apart / size if isfinite(apart) else 0.0


def _change(trace: Trace, began: Held, ended: Held) -> NDArray[np.float64] | None:
    """Return the change of a weight, whole where it was kept, else as a projection."""
    marks = [trace.values[each.value].mark for each in (began, ended)]
    if min(marks) < 0:
        return None
    whole = [trace.kept.get(each) for each in marks]
    if whole[0] is not None and whole[1] is not None and whole[0].size > BUCKETS:
        first, last = (np.asarray(each, np.float64).ravel() for each in whole)
    else:
        first, last = (trace.prints[each]["sketch"] for each in marks)
    return last - first if first.size == last.size else None


def given_otherwise(walk: Walk) -> Given:
    """Return in which hyperparameters optimizers differ, parameter by parameter, where both say so."""
    ours, theirs = (_hyperparameters(trace, walk.step) for trace in (walk.distances.a, walk.distances.b))
    if not ours or not theirs:
        return {}
    found: dict[str, list[tuple[str, str]]] = {}
    stepped = {held.name for held, _ in walk.held("end") if held.kind == "grad"}
    for name in sorted(stepped):
        other = walk.names.get(name, name)
        mine, others = ours.get(name), theirs.get(other)
        if (mine is None or others is None) and not _left_alone(walk, name, other, in_a=mine is None):
            continue  # the program updates it itself
        for said in _said(mine, others):
            found.setdefault(said, []).append((walk.distances.a.called(name), walk.distances.b.called(other)))
    return {said.replace("{}", "the optimizer") if len(names) == len(stepped) else said: names for said, names in
            found.items()}  # fmt: skip


def _left_alone(walk: Walk, name: str, other: str, *, in_a: bool) -> bool:
    """Whether one of the programs does not change a weight in the step."""
    trace, name = (walk.distances.a, name) if in_a else (walk.distances.b, other)
    held = [each for each in trace.held if (each.step, each.kind, each.name) == (walk.step, "weight", name)]
    marks = [trace.values[each.value].mark for each in held]
    return min(marks, default=-1) >= 0 and len({int(trace.prints[each]["hash"]) for each in marks}) == 1


def _said(mine: Mapping[str, Any] | None, others: Mapping[str, Any] | None) -> Iterator[str]:
    if mine is None or others is None:
        if mine is not others:
            yield f"{_UNHELD}{'A' if mine is None else 'B'} holds {{}}"
        return
    if mine["class"] != others["class"]:
        return
    for key in mine:
        if key in others and key not in UNIMPORTANT and not _alike(mine[key], others[key]):
            yield f"`{key}` of {{}} is {shown_argument(mine[key])} in A and {shown_argument(others[key])} in B"


def _alike(x: Any, y: Any) -> bool:
    numbers = [each if isinstance(each, list) else [each] for each in (x, y)]
    if len(numbers[0]) != len(numbers[1]) or not all(isinstance(each, (int, float)) for one in numbers for each in one):
        return bool(x == y) or type(x) is not type(y)
    return bool(np.allclose(numbers[0], numbers[1], rtol=1e-6, atol=0.0, equal_nan=True))


def _hyperparameters(trace: Trace, step: int) -> dict[str, dict[str, Any]]:
    """Return the hyperparameters of each parameter by its name, where they are known."""
    found = {}
    for optimizer in trace.settings.get(step, {}).get("optimizers", []):
        for group, members in zip(optimizer["groups"], optimizer.get("members", []), strict=False):
            found.update({name: {**group, "class": optimizer["class"]} for name in members})
    return found


def unrestored(walk: Walk) -> str | None:
    """Say that an optimizer begins a step with state in one program and without in the other."""
    ours, theirs = (_states(trace, walk.step) for trace in (walk.distances.a, walk.distances.b))
    paired = {name for name, _ in ((held.name, other) for held, other in walk.held("end") if held.kind == "grad")}
    mine = {name: keys for name, keys in ours.items() if name in paired}
    others = {name: keys for name, keys in theirs.items() if name in {walk.names.get(each, each) for each in paired}}
    if bool(mine) == bool(others):
        return None
    held, name, without = (mine, "A", "B") if mine else (others, "B", "A")
    keys = ", ".join(sorted({key for each in held.values() for key in each})[:4])
    return (
        f"as step {walk.step} begins, the optimizer of {name} has state of {len(held):,} parameters ({keys}) and that "
        f"of {without} has none: it is new, or its state was not restored"
    )


def _states(trace: Trace, step: int) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    held = [each for each in trace.held if each.step == step]
    gone = replaced(trace, step, weights_of(trace, step))
    for each in held:
        if (each.at, each.kind) == ("start", "state"):
            key, _, name = each.name.partition(" of ")
            if name not in gone:
                found.setdefault(name, set()).add(key)
    return found


def judged_update(walk: Walk, updates: list[Update], given: Given) -> Judged | None:
    """Return the origin of updates that differ: the parameter whose is furthest apart, and why, where that is known."""
    listed = {name for names in given.values() for name, _ in names}
    told = [each for each in updates if walk.distances.a.called(each.ours.name) in listed] or updates
    if not told:
        return None
    first = told[0]
    a, b = walk.distances.a, walk.distances.b
    ours, theirs = _maker(a, walk.step, first.ours), _maker(b, walk.step, first.theirs)
    apart = walk.distances(first.ours.value, first.theirs.value)
    values, names = (first.ours.value, first.theirs.value), (f"weight {first.ours.name}",)
    origin = Origin("held", walk.step, "optimizer", ours, theirs, values, apart, first.gradient, names=names)
    reasons = [*_reasons(given)]
    if (state := unrestored(walk)) is not None:
        reasons.append(state)
    agree = "to the last bit" if not first.gradient else f"to a relative {first.gradient:.1e}"
    reasons.append(f"its gradient agrees {agree}, and its update differs by a relative {first.apart:.1e}")
    if len(updates) > 1:
        reasons.append(f"the same is true of {len(updates) - 1:,} more parameters")
    return Judged(origin, "semantics", "BS508", tuple(reasons), _fix(given))


def _reasons(given: Given) -> Iterator[str]:
    for said, names in given.items():
        yield said.replace("{}", _listed(names, _NAMED if said.startswith(_UNHELD) else 1), 1)


def _listed(names: Sequence[tuple[str, str]], limit: int) -> str:
    return listed([ours if ours == theirs else f"{ours} ({theirs} in B)" for ours, theirs in sorted(names)], limit)


_UNHELD = "no optimizer of "
_NAMED = 3
"""Parameters that are named, of those that no optimizer holds."""


def _fix(given: Given) -> str:
    """Say what to give the optimizer of the program in which none holds some parameters; else nothing of its own."""
    for said, names in given.items():
        if said.startswith(_UNHELD):
            what = "parameter" if len(names) == 1 else "parameters"
            return f"Give {said[len(_UNHELD)]}'s optimizer the {what} {_listed(names, _NAMED)}."
    return ""


def _classes(walk: Walk) -> Iterator[str]:
    """Say that optimizers are of different classes."""
    ours, theirs = (_hyperparameters(trace, walk.step) for trace in (walk.distances.a, walk.distances.b))
    pairs = ((ours.get(name), theirs.get(walk.names.get(name, name))) for name in ours)
    named = {(mine["class"], others["class"]) for mine, others in pairs if mine is not None and others is not None}
    for mine, others in sorted(each for each in named if each[0] != each[1]):
        yield f"the optimizer is {mine} in A and {others} in B"


def with_reasons(judged: Judged, walk: Walk, given: Given) -> Judged:
    """Return an origin in an optimizer with what is known of hyperparameters and state."""
    if judged.cls != "semantics" or judged.origin.phase != "optimizer":
        return judged
    state = unrestored(walk)
    added = [*_classes(walk), *_reasons(given), *([state] if state is not None else [])]
    known = "; ".join(judged.reasons)
    reasons = (*(each for each in added if each not in known), *judged.reasons)
    is_unheld = bool(reasons) and reasons[0].startswith(_UNHELD)
    return replace(judged, reasons=reasons, fix=judged.fix or (_fix(given) if is_unheld else ""))


def _maker(trace: Trace, step: int, held: Held) -> Any:
    number = trace.values[held.value].maker
    return next((each for each in trace.operations if each.number == number and each.step == step), None)
