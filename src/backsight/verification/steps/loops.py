"""The runs of a step in a loop: some of them alone altered, or with the state of another run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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


class Other(NamedTuple):
    """What an operand of a step in a loop could be taken for: where it is from in words, twice, and how it is mended.

    `origin` is the step that makes it, and `operands` are those that each run would have.
    """

    which: str
    of: str
    fix: str
    origin: Step
    operands: list[Any]


def carried(runs: Mapping[Hashable, Sequence[Step]], key: Hashable, number: int) -> Iterator[Other]:
    """Yield what an operand could be taken for that is made anew in each run: what another run has in its place."""
    mine = runs[key]
    made = [step.origin(number) for step in mine[1:]]
    first = made[0] if made else None
    if first is None or any(each is None or each.key != first.key for each in made):
        return
    results = [step.result for step in runs[first.key]]
    if any(each is None or each.run != first.run + k for k, each in enumerate(made)):
        return
    begin, after = mine[0].args[number], results[first.run :]
    # What run k is given is states[k]: at first what was there before the loop, then the results, one behind.
    states = [begin, *after]
    if first.run == mine[1].run:  # it is made in the run that it is used in
        before, following = [begin, *states][: len(mine)], [*after, after[-1]]
        for other, way in ((before, "previous"), (following, "next")):
            yield Other(f"from the {way} run of the loop, and not from its own", f"the {way} run", _OWN, first, other)
        return
    if len(states) > len(mine):
        yield Other("from its own run of the loop, not from the previous one", "that run", _STATES, first, after)
    yield Other("from two runs before, and not from one", "two runs before", _STATES, first, [begin, *states])


_STATES = "Save the states of all steps, including the first, and use the one that {step} received."
_OWN = "The backward of iteration t uses the values of iteration t: check which iteration the gradient comes from."
