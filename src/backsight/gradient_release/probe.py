"""Whether released steps of an optimizer that is not PyTorch's are exact: tried on small parameters, bit for bit.

The optimizer of the user is only read. One like it is made of its class, for small random parameters of the same
dimensions and types, and steps them a few times: by the ordinary loop, twice, and released, with two sizes of buckets.
The states of all random number generators are put back.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from backsight.gradient_release.errors import CoupledOptimizer, NotReleasable
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.partial_step import Layout
from backsight.gradient_release.per_step_globals import same
from backsight.gradient_release.release import Release
from backsight.quiet import quietly

STEPS = 4
MOST_OF_A_GROUP = 6
"""Parameters of a group that the probe takes, those of different dimensions first."""

LAYOUTS: tuple[Layout, ...] = ("positions", "narrow")

Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]
_PASSED_ON = (bool, int, float, complex, str, tuple, type(None))


class Outcome(NamedTuple):
    """What some steps have made of parameters, the state of their optimizer, and its groups."""

    weights: list[torch.Tensor]
    state: dict[str, Any]
    groups: list[dict[str, Any]]


def probe(optimizer: torch.optim.Optimizer, make: Make | None) -> Evidence:
    """Return the evidence that released steps of this optimizer are exact.

    Raises:
        NotReleasable: if they are not, with what differs, or if it could not be tried.
    """
    kind = type(optimizer)
    arguments = _arguments(optimizer)
    made_with = tuple(f"{name}={value!r}" for name, value in arguments.items()) if make is None else ("make()",)
    make = make or (lambda groups: kind(groups, **arguments))
    with _random_state(optimizer), quietly():
        tried = _Trial(optimizer, make)
        expected = tried.ordinary()
        again = tried.ordinary()
        if (what := _difference(expected, again)) is not None:
            raise NotReleasable(
                f"{kind.__name__} cannot be probed: two ordinary runs with the same seed differ in {what}."
            )
        buckets = (0.0, tried.bytes / 3)
        refused = {layout: tried.differs(expected, layout, buckets) for layout in LAYOUTS}
    exact = next((layout for layout in LAYOUTS if refused[layout] is None), None)
    if exact is None:
        raise NotReleasable(
            f"{kind.__name__} does not step each parameter by itself. Released steps of small parameters were compared "
            f"to those of the ordinary loop: {refused['narrow']}."
        )
    return Evidence(
        f"{kind.__module__}.{kind.__qualname__}", False, exact, STEPS, len(tried.shapes), buckets, made_with
    )


class _Trial:
    """The same steps, ordinary and released, each of new parameters."""

    def __init__(self, optimizer: torch.optim.Optimizer, make: Make):
        self._original = optimizer
        self._make = make
        self._generator = torch.Generator().manual_seed(0)
        self._settings = [_settings(group, optimizer.defaults) for group in optimizer.param_groups]
        self._weights = [[self._small(each) for each in _chosen(group["params"])] for group in optimizer.param_groups]
        flat = [each for group in self._weights for each in group]
        self._gradients = [[self._random(each) * 0.1 for each in flat] for _ in range(STEPS)]
        self.shapes = [tuple(each.shape) for each in flat]
        self.bytes = sum(each.numel() * each.element_size() for each in flat)

    def ordinary(self) -> Outcome:
        """Step as a plain loop does."""
        optimizer, parameters = self._new()
        for number in range(STEPS):
            self._backward(parameters, number)
            try:
                optimizer.step()
            except Exception as failure:
                raise NotReleasable(
                    f"{type(optimizer).__name__} cannot be probed: its plain step failed with small parameters "
                    f"({type(failure).__name__}: {failure})."
                ) from failure
            self._after(optimizer, number)
        return _outcome(optimizer, parameters)

    def released(self, layout: Layout, bucket: float) -> Outcome:
        """Step inside of the backward pass."""
        optimizer, parameters = self._new()
        released = Release(optimizer, bucket, Evidence("", False, layout))
        for number in range(STEPS):
            self._backward(parameters, number)
            optimizer.step()
            self._after(optimizer, number)
        released.remove()
        return _outcome(optimizer, parameters)

    def differs(self, expected: Outcome, layout: Layout, buckets: tuple[float, ...]) -> str | None:
        """Return what is not as expected, in words."""
        for bucket in buckets:
            try:
                found = self.released(layout, bucket)
            except CoupledOptimizer as failure:
                return str(failure).partition(", so that")[0]
            except Exception as failure:
                return f"{type(failure).__name__}: {failure}"
            if (what := _difference(expected, found)) is not None:
                return f"they differ in {what}"
        return None

    def _new(self) -> tuple[torch.optim.Optimizer, list[torch.Tensor]]:
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        weights = [[torch.nn.Parameter(each.clone()) for each in group] for group in self._weights]
        try:
            optimizer = self._made(weights)
        except Exception as failure:
            raise NotReleasable(
                f"{type(self._original).__name__} cannot be probed: one like it could not be made from its defaults "
                f"({type(failure).__name__}: {failure}). Pass make=, a function that makes one for other groups: "
                f"release(optimizer, make=lambda groups: {type(self._original).__name__}(groups, ...))."
            ) from failure
        train = getattr(optimizer, "train", None)
        if callable(train):  # schedulefree: it steps only in this mode
            train()
        return optimizer, [each for group in weights for each in group]

    def _made(self, weights: list[list[torch.nn.Parameter]]) -> torch.optim.Optimizer:
        """Make an optimizer: of what is in its defaults, or else of all that its groups hold, such as `use_muon`."""
        groups = [{**settings, "params": group} for settings, group in zip(self._settings, weights, strict=True)]
        try:
            return self._make(groups)
        except Exception:
            self._settings = [_settings(group, group) for group in self._original.param_groups]
            groups = [{**settings, "params": group} for settings, group in zip(self._settings, weights, strict=True)]
            return self._make(groups)

    def _backward(self, parameters: list[torch.Tensor], number: int) -> None:
        """Give each parameter its gradient of this step, the last parameter first."""
        with torch.enable_grad():
            terms = zip(parameters, self._gradients[number], strict=True)
            sum(((parameter * gradient).sum().float() for parameter, gradient in terms), torch.zeros(())).backward()  # type: ignore[no-untyped-call]  # torch's

    def _after(self, optimizer: torch.optim.Optimizer, number: int) -> None:
        """Move the learning rate as a scheduler does."""
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            if isinstance(group.get("lr"), float):
                group["lr"] *= 0.9

    def _small(self, parameter: torch.Tensor) -> torch.Tensor:
        """Return a random tensor of the same dimensions, type and device, of at most 4096 elements."""
        most = {0: 1, 1: 64, 2: 64, 3: 16}.get(parameter.dim(), 8 if parameter.dim() == 4 else 4)
        return self._random(parameter, tuple(min(size, most) for size in parameter.shape))

    def _random(self, like: torch.Tensor, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        made = torch.randn(like.shape if shape is None else shape, generator=self._generator)
        return made.to(like.device, like.dtype)


def _arguments(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return what the constructor of an optimizer takes, as far as it can be read from its defaults and attributes."""
    known = {**vars(optimizer), **optimizer.defaults}
    taken = list(inspect.signature(type(optimizer).__init__).parameters.values())[2:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        each.name: known[each.name]
        for each in taken
        if each.kind in named and each.name in known and isinstance(known[each.name], _PASSED_ON)
    }


def _settings(group: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a group that are to be passed on: those that are wanted, and are no tensors of state."""
    return {
        key: value
        for key, value in group.items()
        if key in wanted and key not in ("params", "param_names") and isinstance(value, (*_PASSED_ON, torch.Tensor))
    }


def _chosen(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return a few of the parameters of a group, those of different dimensions and types first, in their order."""
    first_of_kind = {(each.dim(), each.dtype): number for number, each in reversed(list(enumerate(parameters)))}
    wanted = list(first_of_kind.values())
    wanted += [number for number in range(len(parameters)) if number not in wanted]
    return [parameters[number] for number in sorted(wanted[:MOST_OF_A_GROUP])]


def _outcome(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> Outcome:
    stored = optimizer.state_dict()
    state = stored.get("state", {})
    return Outcome([each.detach() for each in parameters], dict(state), stored["param_groups"])


def _difference(expected: Outcome, found: Outcome) -> str | None:
    """Return, in words, the first thing in which two outcomes differ."""
    for number, (one, other) in enumerate(zip(expected.weights, found.weights, strict=True)):
        if not same(one, other):
            return f"the weight of parameter {number}, of shape {tuple(one.shape)}"
    if expected.state.keys() != found.state.keys():
        return "which parameters have a state"
    for key, one in expected.state.items():
        if not same(one, found.state[key]):
            entries = [k for k in one if not same(one[k], found.state[key].get(k))] if isinstance(one, dict) else [key]
            return f"the state {entries[0] if entries else key!r}"
    for number, (group, others) in enumerate(zip(expected.groups, found.groups, strict=True)):
        for key in {**group, **others}:
            if key not in group or key not in others or not same(group[key], others[key]):
                return f"{key!r} of group {number}"
    return None


@contextmanager
def _random_state(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Put the random number generators of PyTorch, Python and NumPy back as they were."""
    devices = {each.device for group in optimizer.param_groups for each in group["params"] if each.is_cuda}
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[device.index for device in devices]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
