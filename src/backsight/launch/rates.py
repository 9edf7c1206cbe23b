"""The learning rate of each optimizer, and its weight decay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.schedules import counts_batches, faded, lowest_rate, multiplies, shrinking, swings
from backsight.launch.sign import Sign, Step
from backsight.snapshot import groups
from backsight.tape import Living

FADED = 1e-5
"""A learning rate so many times smaller than the largest before moves nothing. (ReduceLROnPlateau ends near 1e-8.)"""

LOW = 0.01
"""A learning rate so many times smaller than the largest before is low; that most of a training has it is a fault if
the schedule is stepped once a batch, and so may count batches for epochs."""

HIGH = 0.9
"""A learning rate that was low, and is so much of the largest before, has come back."""

_SHORTEST = 16
"""Steps with a low rate."""

_LASTING = 10
"""Steps that a rate has to have been lost for: schedules end at 0."""

_DECAYED = 16
"""The step of an optimizer at which its weight decay is looked at."""


@dataclass(slots=True)
class _Rate:
    """What is known of the rate of one optimizer."""

    peak: float = 0.0
    steps: int = 0
    faded_since: int = 0
    is_negative: bool = False
    low_since: int = 0
    """The first of its own steps in a row with a low rate."""
    early: Finding | None = None
    was_low: bool = False
    is_back: bool = False
    """Whether it has been high again since it was low."""
    is_scheduled: bool = False
    factor: float = 0.0
    """The largest that any schedule has made of the rate that a group began with."""
    rising: int = 0
    """The last of its own steps at which the factor was larger than ever before."""


class Rates(Sign):
    """Follows the largest rate of the groups of each optimizer."""

    def __init__(self) -> None:
        self._rates: Living[_Rate] = Living()
        self._faded: dict[int, tuple[Finding, int, int]] = {}
        """What was told of which, since which step of the run, and the last one in which it was so."""
        self._small: dict[int, Finding] = {}
        self._swinging: dict[int, Finding] = {}

    def each_step(self, step: Step) -> None:
        known = self._rates.at(step.key)
        if known is None:
            known = _Rate()
            self._rates.put(step.key, step.optimizer, known)
        known.steps = step.steps
        rate = _rate(step.optimizer)
        if rate is None:
            return
        if rate > known.peak:
            known.peak = rate
        self._multiplied(known, step)
        known.was_low |= rate <= LOW * known.peak and known.peak > 0
        if rate > LOW * known.peak:
            known.low_since, known.early = 0, None
            self._risen(known, rate, step)
        elif rate:
            self._low(known, rate, step)
        if known.peak and rate <= FADED * known.peak:
            self._fade(known, rate, step)
        else:
            known.faded_since = 0
            self._faded.pop(step.key, None)

    @property
    def findings(self) -> Iterator[Finding]:
        for found, since, last in self._faded.values():
            if last - since >= max(_LASTING, last // 10) - 1:
                yield found
        yield from self._small.values()
        yield from self._swinging.values()
        told = {found.title for found, _, _ in self._faded.values()}
        for key, each in self._rates.items():
            low = key not in self._faded and each.steps >= 2 * each.low_since
            if low and each.early is not None and each.early.title not in told:
                yield each.early

    def _multiplied(self, known: _Rate, step: Step) -> None:
        """Look, once a factor has stopped rising, whether it is so small that it may be a rate."""
        if not step.steps & (step.steps - 1):
            known.is_scheduled = _factor(step.optimizer) is not None
        if not known.is_scheduled:
            return
        factor = _factor(step.optimizer)
        if factor is None or factor > known.factor:
            known.factor, known.rising = factor or 0.0, step.steps
            self._small.pop(step.key, None)
        elif step.steps >= 2 * max(known.rising, _SHORTEST) and not step.steps & (step.steps - 1) and known.factor < 1:
            found = multiplies(step.optimizer, known.factor, step.number - step.steps + 1, step.caller())
            if found is not None:
                self._small.setdefault(step.key, found)

    def _risen(self, known: _Rate, rate: float, step: Step) -> None:
        """Look, once a rate that was low has come back, for a cosine that is stepped once a batch."""
        if known.was_low and not known.is_back and rate >= HIGH * known.peak:
            known.is_back = True
            found = swings(step.optimizer, step.steps, step.number, step.caller())
            if found is not None:
                self._swinging.setdefault(step.key, found)

    def _low(self, known: _Rate, rate: float, step: Step) -> None:
        """Look, once most of the steps of an optimizer had a low rate, for a schedule that is stepped once a batch."""
        known.low_since = known.low_since or step.steps
        if step.steps == 2 * max(known.low_since, _SHORTEST):
            found = counts_batches(step.optimizer, step.steps, known.peak, rate, known.low_since, step.caller())
            known.early = found

    def _fade(self, known: _Rate, rate: float, step: Step) -> None:
        """Tell, and go on telling, that a rate has been lost for some steps."""
        known.faded_since = known.faded_since or step.number
        told = self._faded.get(step.key)
        turns = not known.is_negative and lowest_rate(step.optimizer) < 0
        known.is_negative |= turns
        if step.number - known.faded_since == _LASTING - 1 or (told is not None and turns):
            found = faded(step.optimizer, step.steps, known.peak, rate, known.faded_since, step.caller())
            self._faded[step.key] = found, known.faded_since, step.number
        elif told is not None:
            self._faded[step.key] = *told[:2], step.number


class Decay(Sign):
    """Looks once at the weight decay of each optimizer."""

    def __init__(self) -> None:
        self._found: dict[int, Finding] = {}

    def doubled(self, step: Step) -> None:
        if step.steps == _DECAYED:
            found = shrinking(step.optimizer, step.number - _DECAYED + 1, step.caller())
            if found is not None:
                self._found[step.key] = found


def _factor(optimizer: torch.optim.Optimizer) -> float | None:
    """Return the largest factor between the rates of the groups and those that they began with, if schedules have kept
    these; None otherwise."""
    factor = None
    for group in groups(optimizer):
        rate, first = group.get("lr"), group.get("initial_lr")
        if type(rate) is float and type(first) is float and first > 0:
            factor = max(factor or 0.0, rate / first)
    return factor


def _rate(optimizer: torch.optim.Optimizer) -> float | None:
    """Return the largest learning rate; None if one is a tensor, whose value would have to be waited for."""
    rate = 0.0
    for group in groups(optimizer):
        given = group.get("lr")
        if type(given) is not float and type(given) is not int:
            return None
        rate = max(rate, float(given))
    return rate
