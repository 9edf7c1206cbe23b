"""Which steps are to be traced, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backsight.recording.arguments import given

MOST_STEPS = 1000


def checked(steps: Any) -> tuple[int, ...]:
    """Return the steps that were asked for.

    Raises:
        TypeError: if they are no whole numbers.
        ValueError: if there are none, too many, or negative ones.
    """
    if isinstance(steps, int) and not isinstance(steps, bool):
        steps = (steps,)
    elif isinstance(steps, (str, bytes)) or not isinstance(steps, Iterable):
        raise TypeError(f"steps must be whole numbers, not {given(steps)}: steps=0, or steps=(0, 1, 100).")
    chosen = tuple(steps)
    wrong = [each for each in chosen if isinstance(each, bool) or not isinstance(each, int)]
    if wrong:
        raise TypeError(f"steps must be whole numbers, not {given(wrong[0])}: steps=0, or steps=(0, 1, 100).")
    if not chosen or min(chosen) < 0:
        raise ValueError(f"steps must name at least one step, counted from 0, not {given(steps)}: steps=(0, 1, 100).")
    if len(set(chosen)) > MOST_STEPS:
        raise ValueError(f"steps names {len(set(chosen)):,} steps, but a trace can hold at most {MOST_STEPS:,}.")
    return chosen
