"""Which parameters no step of their optimizer has moved, though they had gradients."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from backsight.snapshot import groups
from backsight.tape import Living, is_captured, no_torch_dispatch, no_torch_function
from backsight.tape import version as count

BEGIN = 2
"""The step of an optimizer after which a sample of its parameters is kept; the first may be made with a rate of 0."""

LOOKS = (8, 16, 32)
"""The steps after which the samples are compared."""

_COMPARED = frozenset((BEGIN, *LOOKS))

_SAMPLE = 256
"""Values of each parameter that are kept, evenly spread; those that had a gradient are compared."""

_PLAIN = (torch.Tensor, torch.nn.Parameter)

NEGLIGIBLE = 1e-6
"""A gradient so many times smaller than the optimizer's largest is rounding, as of a bias before a normalization."""


@dataclass(frozen=True, eq=False)
class Unmoved:
    """A parameter whose values are the same to the last bit after so many `steps`.

    `rate` is the learning rate of its group, `pull` the largest gradient among the values that were compared. `written`
    tells whether anything has changed it in place at all, by its version, and `stuck` which share of the values with a
    gradient has not moved, among all of the optimizer's that were compared.
    """

    parameter: torch.Tensor
    steps: int
    rate: float
    pull: float
    written: bool = True
    stuck: float = 1.0


class _Memory:
    """The memory of a flat tensor: a program that counts the tensors which the collector lists finds none here."""

    __slots__ = ("_dtype", "_storage")

    def __init__(self, tensor: torch.Tensor):
        self._dtype, self._storage = tensor.dtype, tensor.untyped_storage()

    def tensor(self) -> torch.Tensor:
        """Return a tensor of this memory."""
        return torch.empty(0, dtype=self._dtype, device=self._storage.device).set_(self._storage)


@dataclass(frozen=True, eq=False)
class _Sample:
    parameter: weakref.ref[torch.Tensor]
    count: int
    """How many values the parameter had."""
    values: _Memory
    pulled: _Memory
    """Which of the values had a gradient."""
    version: int | None


_Still = tuple[weakref.ref[torch.Tensor], float, float, bool]
"""A parameter that has not moved, its rate, its largest gradient, and whether anything has written to it."""


@dataclass(slots=True)
class _Course:
    """What is known of one optimizer."""

    steps: int = 0
    samples: list[_Sample] = field(default_factory=list)
    still: list[_Still] = field(default_factory=list)
    stuck: float = 1.0


class _Look(NamedTuple):
    """Of the sampled values with a gradient: the largest gradient, how many have moved, and how many there are."""

    pull: float
    moved: float
    pulled: float


class Moves:
    """Samples of the parameters of each optimizer, and which of them have stayed as they were."""

    def __init__(self) -> None:
        self._courses: Living[_Course] = Living()  # by the id of the groups

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that `optimizer` has just stepped: at most steps this counts, and no more."""
        key = id(groups(optimizer))
        course = self._courses.at(key)
        if course is None:
            course = _Course()
            self._courses.put(key, optimizer, course)
        course.steps += 1
        if course.steps not in _COMPARED or is_captured():
            return
        with torch.no_grad(), no_torch_function(), no_torch_dispatch():
            if course.steps == BEGIN:
                course.samples = [s for g in groups(optimizer) for p in g["params"] if (s := _sampled(p))]
            else:
                looked_at = list(_looked_at(course.samples))
                course.still = list(self._compared(optimizer, looked_at))
                pulled = sum(each.pulled for _, each in looked_at)
                course.stuck = 1 - sum(each.moved for _, each in looked_at) / max(pulled, 1)
        if course.steps == LOOKS[-1]:
            course.samples = []

    def steps(self, optimizer: torch.optim.Optimizer) -> int:
        """Return how many steps an optimizer has made."""
        course = self._courses.at(id(groups(optimizer)))
        return course.steps if course is not None else 0

    def unmoved(self, optimizer: torch.optim.Optimizer) -> list[Unmoved]:
        """Return the parameters that were as before at the last look, and had a gradient then as at the beginning.

        Those whose learning rate was 0 and is not any more have moved since.
        """
        course = self._courses.at(id(groups(optimizer))) or _Course()
        steps = max((look for look in LOOKS if look <= course.steps), default=BEGIN) - BEGIN
        rates = {id(p): group.get("lr") for group in groups(optimizer) for p in group["params"]}
        found = ((ref(), rate, pull, written) for ref, rate, pull, written in course.still)
        return [
            Unmoved(parameter, steps, rate, pull, written, course.stuck)
            for parameter, rate, pull, written in found
            if parameter is not None and (rate or not rates.get(id(parameter)))
        ]

    def _compared(self, optimizer: torch.optim.Optimizer, looked_at: list[tuple[_Sample, _Look]]) -> Iterator[_Still]:
        rates = {id(p): group.get("lr", 0.0) for group in groups(optimizer) for p in group["params"]}
        enough = NEGLIGIBLE * max((each.pull for _, each in looked_at), default=0.0)
        for sample, (pull, moved, _) in looked_at:
            parameter = sample.parameter()
            if not moved and pull > enough and parameter is not None and id(parameter) in rates:
                written = sample.version is None or count(parameter) != sample.version
                yield sample.parameter, float(rates[id(parameter)]), pull, written


def _sampled(parameter: Any) -> _Sample | None:
    """Return a sample of a parameter's values; None if there is none to look at. No device is waited for."""
    gradient = _readable(parameter.grad)
    if gradient is None or _readable(parameter) is None:
        return None
    at = _places(parameter)
    values, pulled = torch.take(parameter.detach(), at), torch.take(gradient, at) != 0
    return _Sample(weakref.ref(parameter), parameter.numel(), _Memory(values), _Memory(pulled), count(parameter))


def _places(parameter: torch.Tensor) -> torch.Tensor:
    """Return which of a parameter's values are kept."""
    count = parameter.numel()
    number = min(count, _SAMPLE)
    return torch.arange(number, device=parameter.device) * (count - 1) // max(number - 1, 1)


def _readable(tensor: Any) -> torch.Tensor | None:
    """Return a tensor whose values can be read here without code of a subclass, or talk between ranks."""
    if not any(type(tensor) is kind for kind in _PLAIN) or tensor.layout != torch.strided or not tensor.numel():
        return None
    return None if tensor.is_meta or tensor.is_quantized or tensor.is_nested else tensor


def _looked_at(samples: list[_Sample]) -> Iterator[tuple[_Sample, _Look]]:
    """Yield each sample with what a look at its values says; one wait for a device."""
    asked: dict[torch.device, list[tuple[_Sample, torch.Tensor]]] = {}
    for sample in samples:
        numbers = _pull_and_moved(sample)
        if numbers is not None:
            asked.setdefault(numbers.device, []).append((sample, numbers))
    for found in asked.values():
        answers = torch.stack([numbers for _, numbers in found]).tolist()
        for (sample, _), answer in zip(found, answers, strict=True):
            yield sample, _Look(*answer)


def _pull_and_moved(sample: _Sample) -> torch.Tensor | None:
    """Return the three numbers of a look."""
    parameter = sample.parameter()
    gradient = _readable(parameter.grad) if parameter is not None else None
    if parameter is None or gradient is None or _readable(parameter) is None:
        return None
    values, pulled = sample.values.tensor(), sample.pulled.tensor()
    before = values.dtype, values.device, sample.count
    if (parameter.dtype, parameter.device, parameter.numel()) != before:
        return None
    at = _places(parameter)
    pulls = torch.take(gradient, at).abs().where(pulled, 0)
    moved = (torch.take(parameter.detach(), at) != values) & pulled
    return torch.stack((pulls.max().double(), moved.sum().double(), pulled.sum().double()))
