"""What is wrong with a tensor, as far as its own numbers over the last steps tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

STEPS_TO_MOVE = 5
"""A weight that is still what it was has had so many recorded steps to move in."""

KINDS = ("not finite", "all zero", "never moves")
"""The kinds of problems, the gravest first."""

_MEANT_TO_BE_ALIVE = ("output", "grad", "averaged_grad", "output_grad", "update")
"""Kinds for which only zeros mean that nothing passes."""


class Moment(NamedTuple):
    """The statistics of a tensor at a step, or at all calls of it so far."""

    mean: float
    min: float
    max: float
    m2: float
    elements: int
    zeros: int
    nans: int
    infs: int

    @property
    def rms(self) -> float:
        """Root mean square of the finite elements; NaN if there are none."""
        finite = self.elements - self.nans - self.infs
        return math.sqrt(self.m2 / finite + self.mean**2) if finite > 0 else math.nan

    @property
    def finite(self) -> bool:
        return not self.nans and not self.infs

    @property
    def dead(self) -> bool:
        return 0 < self.elements == self.zeros

    def then(self, later: Moment) -> Moment:
        """Return the later call with what counts of both."""
        return later._replace(
            elements=self.elements + later.elements,
            zeros=self.zeros + later.zeros,
            nans=self.nans + later.nans,
            infs=self.infs + later.infs,
        )


class Problem(NamedTuple):
    """What is wrong, in a few words."""

    kind: Literal["not finite", "all zero", "never moves"]
    text: str


def problems(
    kind: str,
    dtype: str | None,
    window: Sequence[int],
    moments: Sequence[Moment | None],
    first: Moment | None,
    steps_before: int,
) -> tuple[Problem, ...]:
    """Return what is wrong with a tensor of this kind.

    moments: one for each step of the window, None where the tensor was not there; the last one is there.
    first: the tensor at the first step of the run, if it is a weight that should move; `steps_before` how many
        recorded steps ago that was.
    """
    now = moments[-1]
    if now is None:
        return ()
    found = []
    if not now.finite or any(moment is not None and not moment.finite for moment in moments):
        found.append(Problem("not finite", _not_finite(now, window, moments)))
    if kind in _MEANT_TO_BE_ALIVE and now.dead and (dtype or "").startswith(("float", "bfloat", "complex")):
        found.append(Problem("all zero", _all_zero(moments, steps_before)))
    if kind == "weight" and first is not None and now == first and steps_before >= STEPS_TO_MOVE:
        found.append(Problem("never moves", f"has not moved in {steps_before:,} recorded steps"))
    return tuple(found)


def _not_finite(now: Moment, window: Sequence[int], moments: Sequence[Moment | None]) -> str:
    since = next(step for step, moment in zip(window, moments, strict=True) if moment and not moment.finite)
    if now.finite:
        return f"was not finite at step {since}"
    if since == window[-1]:
        return "not finite at this step"
    return f"not finite since step {since}{' or before' if since == window[0] else ''}"


def _all_zero(moments: Sequence[Moment | None], steps_before: int) -> str:
    steps = 0
    for moment in reversed(moments):
        if moment is None or not moment.dead:
            break
        steps += 1
    if steps == 1:
        return "all zero at this step"
    if steps > steps_before:
        return f"all zero in all {steps} steps"
    return f"all zero for {'at least ' if steps == len(moments) else ''}{steps} steps"
