"""The runs of a step in a loop: some of them alone altered, or with the state of another run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch

from backsight.verification.steps.step import Step

Alter = Callable[[Step, int], torch.Tensor | None]

RUNS: dict[str, Callable[[int, int], bool]] = {
    "all but the last": lambda run, count: run < count - 1,
    "the last": lambda run, count: run == count - 1,
    "all but the first": lambda run, count: run > 0,
    "the first": lambda run, count: run == 0,
}
"""Which runs, of a count."""


def in_runs(alter: Alter, chosen: Callable[[int, int], bool], count: int) -> Alter:
    """Return an alteration of some runs alone."""
    return lambda step, number: alter(step, number) if chosen(step.run, count) else step.result


def carried(
    runs: Mapping[Hashable, Sequence[Step]], key: Hashable, number: int
) -> Iterator[tuple[str, str, Step, list[Any]]]:
    """Yield what an operand could be taken for that one run of a loop hands on to the next: that of another run.

    With it come what it is in words, twice, the step that makes it, and the operand for each run.
    """
    mine = runs[key]
    made = [step.origin(number) for step in mine[1:]]
    first = made[0] if made else None
    if first is None or any(each is None or each.key != first.key for each in made):
        return
    results = [step.result for step in runs[first.key]]
    if any(each is None or each.run != first.run + k for k, each in enumerate(made)):
        return
    begin = mine[0].args[number]
    # What run k is given is states[k]: at first what was there before the loop, then the results, one behind.
    states = [begin, *results[first.run :]]
    if len(states) > len(mine):
        yield "from its own run of the loop, and not from the one before", "that run", first, states[1:]
    yield "from two runs before, and not from one", "two runs before", first, [begin, *states]
