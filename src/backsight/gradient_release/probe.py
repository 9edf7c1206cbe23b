"""Whether released steps of an optimizer that is not PyTorch's are exact: proven, and then tried, bit for bit.

The optimizer of the user is only read. One like it is made of its class, for small random parameters (`copies`). What
couples parameters is looked for first (`proof`); then it steps by the ordinary loop, twice, and released, with two
sizes of buckets: even steps of small parameters, and the rarer steps of the scenario with tiny ones. The states of all
random number generators are put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from backsight.gradient_release.copies import Copies, Make, tiny
from backsight.gradient_release.counters import numbers
from backsight.gradient_release.errors import CoupledOptimizer, NotReleasable
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.partial_step import Layout
from backsight.gradient_release.per_step_globals import same
from backsight.gradient_release.proof import INSIST, prove
from backsight.gradient_release.release import Release
from backsight.gradient_release.scenario import Given, even_steps, gradients_of, rare_steps
from backsight.quiet import quietly
from backsight.random_state import random_state_kept

STEPS = 4
MOST_OF_A_GROUP = 6
"""Parameters of a group that the probe takes, those of different dimensions first."""

LAYOUTS: tuple[Layout, ...] = ("positions", "narrow")


class Outcome(NamedTuple):
    """What some steps have made of parameters, the state of their optimizer, its groups, and what else it counts."""

    weights: list[torch.Tensor]
    state: dict[str, Any]
    groups: list[dict[str, Any]]
    counts: list[tuple[str, float]]


def probe(optimizer: torch.optim.Optimizer, make: Make | None, trust: bool = False) -> Evidence:
    """Return the evidence that released steps of this optimizer are exact.

    Args:
        trust: take it for granted; of the layouts the one is chosen that a comparison finds exact, if one does.

    Raises:
        NotReleasable: if they are not, with what differs, or if it could not be tried.
    """
    kind = type(optimizer)
    name = f"{kind.__module__}.{kind.__qualname__}"
    with random_state_kept(), quietly(), torch.compiler.set_stance("force_eager"):
        try:
            return _tried(name, optimizer, make)
        except NotReleasable as refusal:
            if not trust:
                raise
            return Evidence(name, False, _layout_insisted_on(optimizer, make), insisted=str(refusal))


def _tried(name: str, optimizer: torch.optim.Optimizer, make: Make | None) -> Evidence:
    proof = prove(optimizer, make)
    copies = Copies(optimizer, make, MOST_OF_A_GROUP)
    even = _Trial(copies, [Given((1.0,) * len(copies.flat))] * STEPS)
    small = Copies(optimizer, make, MOST_OF_A_GROUP, tiny)
    rare = _Trial(small, [*even_steps(small.places), *rare_steps(small.places)])
    differing = ""
    for layout in LAYOUTS:
        found = even.differs(layout) or rare.differs(layout)
        if found is None:
            return Evidence(name, False, layout, STEPS, len(copies.flat), even.buckets, copies.made_with, str(proof))
        differing = found
    raise NotReleasable(
        f"{type(optimizer).__name__} does not step each parameter separately. Released steps of small parameters "
        f"differ from those of the ordinary loop: {differing}. Train without release(), or override this with "
        "release(optimizer, "
        "trust=True)."
    )


def _layout_insisted_on(optimizer: torch.optim.Optimizer, make: Make | None) -> Layout:
    """Return the layout with which even steps are exact; "narrow" if none is, or it cannot be tried."""
    try:
        copies = Copies(optimizer, make, MOST_OF_A_GROUP)
        even = _Trial(copies, [Given((1.0,) * len(copies.flat))] * STEPS)
        return next((layout for layout in LAYOUTS if even.differs(layout) is None), "narrow")
    except NotReleasable:
        return "narrow"


class _Trial:
    """The same steps, ordinary and released, each of new parameters.

    Args:
        steps: what each step is given; those from the first on that the plain optimizer cannot take are left out.

    Raises:
        NotReleasable: if even the plain optimizer does not step the same way twice.
    """

    def __init__(self, copies: Copies, steps: Sequence[Given]):
        self._copies = copies
        self._steps = list(steps)
        size = sum(each.numel() * each.element_size() for each in copies.flat)
        self.buckets = (0.0, size / 3)
        self._expected = self._ordinary()
        if (what := _difference(self._expected, self._ordinary())) is not None:
            raise NotReleasable(
                f"{type(copies.original).__name__} cannot be probed: two ordinary runs with the same seed differ in "
                f"{what}. {INSIST}"
            )

    def differs(self, layout: Layout) -> str | None:
        """Return what is not as in the ordinary loop, in words."""
        for bucket in self.buckets:
            try:
                found = self._released(layout, bucket)
            except CoupledOptimizer as failure:
                return str(failure).partition(", so that")[0]
            except Exception as failure:
                return f"{type(failure).__name__}: {failure}"
            if (what := _difference(self._expected, found)) is not None:
                return f"they differ in {what}"
        return None

    def _ordinary(self) -> Outcome:
        """Step as a plain loop does."""
        optimizer, parameters = self._copies.new()
        for number, given in enumerate(self._steps):
            self._backward(parameters, number, given)
            try:
                optimizer.step()
            except Exception as failure:
                if given.even:
                    raise NotReleasable(
                        f"{type(optimizer).__name__} cannot be probed: its plain step failed with small parameters "
                        f"({type(failure).__name__}: {failure}). {INSIST}"
                    ) from failure
                del self._steps[number:]
                return self._ordinary()
            self._after(optimizer)
        return _outcome(optimizer, parameters)

    def _released(self, layout: Layout, bucket: float) -> Outcome:
        """Step inside of the backward pass."""
        optimizer, parameters = self._copies.new()
        released = Release(optimizer, bucket, Evidence("", False, layout))
        for number, given in enumerate(self._steps):
            self._backward(parameters, number, given)
            optimizer.step()
            self._after(optimizer)
        released.remove()
        return _outcome(optimizer, parameters)

    def _backward(self, parameters: list[torch.Tensor], number: int, given: Given) -> None:
        """Give each parameter its gradient of this step, the last parameter first."""
        gradients = gradients_of(given, parameters, number)
        with torch.enable_grad():
            terms = [
                each * gradient for each, gradient in zip(parameters, gradients, strict=True) if gradient is not None
            ]
            sum((term.sum().float() for term in terms), torch.zeros(())).backward()  # type: ignore[no-untyped-call]  # torch's

    def _after(self, optimizer: torch.optim.Optimizer) -> None:
        """Move the learning rates as a scheduler does, each group's by a factor of its own."""
        optimizer.zero_grad()
        for number, group in enumerate(optimizer.param_groups):
            if isinstance(group.get("lr"), float):
                group["lr"] *= 0.9 - 0.1 * (number % 4)


def _outcome(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> Outcome:
    stored = optimizer.state_dict()
    state = stored.get("state", {})
    counts = [(at[1], each.value) for at, each in numbers(optimizer).items() if at[0] == "attribute"]
    return Outcome([each.detach() for each in parameters], dict(state), stored["param_groups"], counts)


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
    if len(expected.counts) != len(found.counts):
        return "its attributes"
    pairs = zip(expected.counts, found.counts, strict=True)
    return next((f"its attribute {one[0]!r}" for one, other in pairs if not same(one, other)), None)
