"""How long two trainings agree, by the summaries of all steps: to the last bit, and beyond that up to rounding.

The rule: while every step before agreed to the last bit, the first that does not is where they part. From then on,
rounding differences grow, and nobody can know how fast; so a step counts only if its gradients or weights are further
apart than `JUMP` times all that was seen in any step before, and than `JUMP` times `FLOOR`. Hyperparameters are exact:
a number that agreed in all steps before and no longer does is where they part. What grows slowly from rounding is
called rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isclose, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.traces.records import Summary, Trace

JUMP = 30.0
"""How many times further apart than ever before a step must be."""

FLOOR = 1e-5
"""The relative difference of a norm that rounding makes in any step."""

_SMALL = 1e-4
"""A norm that is smaller beside all together is compared with that: the gradient of a bias before a normalization is
nothing but rounding."""

_ROUNDED = 1e-6
"""The relative difference within which hyperparameters count as the same: schedules are written in many ways."""


@dataclass(frozen=True)
class Departure:
    """A step from which on two trainings differ.

    reason: what differs in it.
    """

    step: int
    reason: str


@dataclass(frozen=True)
class Agreement:
    """How long two trainings agree.

    steps: how many steps both have; ended: how many each has.
    bits: the first step that differs at all; None if all agree to the last bit.
    beyond: the first step that differs by more than rounding explains; None if there is none.
    noise: the largest relative difference in the steps before that.
    """

    steps: int
    ended: tuple[int, int]
    bits: Departure | None
    beyond: Departure | None
    noise: float

    @property
    def departures(self) -> tuple[Departure, ...]:
        """Both, in order, each step once."""
        found = {each.step: each for each in (self.bits, self.beyond) if each is not None}
        return tuple(found[step] for step in sorted(found))

    def agree(self, step: int) -> str:
        """Say how far both agree before a step."""
        exact = self.bits is None or step <= self.bits.step
        return f"both agree {'to the last bit' if exact else 'up to rounding'} in {span(0, step - 1)}"


def span(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"


def agreement(a: Trace, b: Trace) -> Agreement | None:
    """Find how long two trainings agree; None where not both have summaries from the first step on."""
    pairs = list(zip(a.summaries, b.summaries, strict=False))
    if not pairs or any(x.step != k or y.step != k for k, (x, y) in enumerate(pairs)):
        return None
    bits = next((x.step for x, y in pairs if x.bits != y.bits), None)
    furthest, differing = 0.0, _differing_numbers(*pairs[0])
    beyond: Departure | None = None
    first: str | None = None
    for x, y in pairs:
        numbers = _differing_numbers(x, y)
        new = [text for name, text in numbers.items() if name not in differing]
        apart, where = max(_distances(x, y), default=(0.0, ""))
        if x.step == bits:
            first = new[0] if new else where or "gradients or weights differ in their bits alone"
        jumps = apart > JUMP * max(furthest, FLOOR)
        if x.step and (new or jumps):
            beyond = Departure(x.step, new[0] if new else where)
            break
        furthest = max(furthest, apart)
    exact = None if bits is None else Departure(bits, first or (beyond.reason if beyond is not None else ""))
    return Agreement(len(pairs), (len(a.summaries), len(b.summaries)), exact, beyond, furthest)


def unlike(first: Trace, again: Trace, last: int) -> int | None:
    """Return the first step up to the last one that a program took otherwise when it ran again; None if there is none.

    A run that ended before has taken the next step otherwise.
    """
    for step in range(last + 1):
        if step >= min(len(first.summaries), len(again.summaries)):
            return step
        if first.summaries[step].bits != again.summaries[step].bits:
            return step
    return None


def _distances(x: Summary, y: Summary) -> Iterator[tuple[float, str]]:
    """Yield how far apart gradients and weights are, and what to say of it."""
    for what, ours, theirs in (("gradients", x.grads, y.grads), ("weights", x.weights, y.weights)):
        missing = int((ours < 0).sum()), int((theirs < 0).sum())
        if ours.size == theirs.size and missing[0] != missing[1]:
            yield inf, f"{missing[0]:,} parameters have no gradient in A, and {missing[1]:,} in B"
        elif ours.size or theirs.size:
            apart = (
                _apart(ours[ours >= 0], theirs[theirs >= 0]) if _finite(ours, theirs) else _unlike_nans(ours, theirs)
            )
            if apart:
                size = f"by a relative {apart:.1e}" if isfinite(apart) else "in where they are NaN or infinite"
                yield apart, f"the norms of {what} differ {size}"


def _finite(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> bool:
    return bool(np.isfinite(ours).all() and np.isfinite(theirs).all())


def _unlike_nans(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    return 0.0 if np.isfinite(ours).sum() == np.isfinite(theirs).sum() and ours.size == theirs.size else inf


def _apart(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """Return the largest relative difference of norms: one by one in the order of size, which no name or order of
    parameters changes; where weights are fused or split, of all together."""
    x, y = np.sort(ours.astype(np.float64)), np.sort(theirs.astype(np.float64))
    together = np.linalg.norm(x), np.linalg.norm(y)
    if x.size != y.size:
        x, y = np.array(together[:1]), np.array(together[1:])
    least = max(_SMALL * max(*together), np.finfo(np.float64).tiny)
    return float((np.abs(x - y) / np.maximum(np.maximum(x, y), least)).max(initial=0.0))


def _differing_numbers(x: Summary, y: Summary) -> dict[tuple[int, str], str]:
    """Return the hyperparameters that differ, whatever the order of groups, by optimizer and name."""
    found = {}
    for place, (ours, theirs) in enumerate(zip(x.optimizers, y.optimizers, strict=False)):
        for name in dict.fromkeys(each for group in ours for each in group):
            mine, others = _of(ours, name), _of(theirs, name)
            if others and not (_among(mine, others) and _among(others, mine)):
                told = [", ".join(map(_shown, each[:3])) for each in (mine, others)]
                found[place, name] = f"`{name}` of the optimizer is {told[0]} in A and {told[1]} in B"
    return found


def _of(groups: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    found: list[Any] = []
    for group in groups:
        if name in group and not any(_alike(group[name], each) for each in found):
            found.append(group[name])
    return found


def _among(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return all(any(_alike(each, other) for other in others) for each in some)


def _alike(x: Any, y: Any) -> bool:
    if isinstance(x, (int, float)) and isinstance(y, (int, float)):
        return isclose(x, y, rel_tol=_ROUNDED) or (x != x and y != y)
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(_alike, x, y))
    return bool(x == y)


def _shown(given: Any) -> str:
    return f"{given:.6g}" if isinstance(given, float) else str(given)
