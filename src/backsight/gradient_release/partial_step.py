"""A step of some of an optimizer's parameters, bit for bit what its own step does with them.

The optimizer's groups are narrowed, in place, to the parameters that are to be stepped; the `step` of its class runs,
without the hooks that count as one step for the user; then the groups are as before. See
`per_step_globals` for what an optimizer counts per step. Measured with all optimizers of `torch.optim`, and with 212
others: docs/release.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from backsight.gradient_release.per_step_globals import PerStepGlobals

Layout = Literal["positions", "narrow"]
"""What the groups of an optimizer hold during a partial step: beside the parameters, nothing ("narrow"), or empty
parameters without a gradient in the places of the others, for optimizers that go by places ("positions")."""


class PartialStep:
    """Steps a few parameters of an optimizer at a time.

    ```python
    partial = PartialStep(optimizer)
    partial.step([model.weight])     # those that have a gradient; it is not freed
    optimizer.step()                 # the others
    partial.finish()
    ```

    Args:
        optimizer: any optimizer whose step treats each parameter alone.
        layout: for an optimizer that is not one of `torch.optim`: what its groups hold meanwhile.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, layout: Layout = "narrow"):
        self.optimizer = optimizer
        self.trusted = is_of_torch(optimizer)
        self._step = step_of_class(type(optimizer))
        self._layout = layout
        self._globals = None if self.trusted else PerStepGlobals(optimizer)
        self._entries: int | None = None
        """How many the state had before the first partial step of this step."""
        self._places: dict[int, tuple[int, int]] = {}
        self._empty = torch.nn.Parameter(torch.empty(0), requires_grad=False)

    def step(self, parameters: Sequence[torch.Tensor]) -> None:
        """Step these parameters of the optimizer; each has a gradient, which is left where it is.

        Raises:
            CoupledOptimizer: if the optimizer turns out to treat its parameters together.
        """
        if self._entries is None:
            self._entries = len(self.optimizer.state)
        groups = self.optimizer.param_groups
        held = [group["params"] for group in groups]
        narrowed = [list(parameters)] if len(groups) == 1 and self.trusted else self._narrowed(parameters, held)
        counted = self._globals
        if counted is not None:
            counted.hold()
        try:
            for group, few in zip(groups, narrowed, strict=True):
                group["params"] = few
            if torch.is_autocast_enabled() or torch.is_autocast_enabled("cpu"):
                self._step_without_autocast()
            elif counted is None:
                self._step(self.optimizer)
            else:
                self._step_without_hooks()
        finally:
            for group, all_of_them in zip(groups, held, strict=True):
                group["params"] = all_of_them
            self.optimizer.state.pop(self._empty, None)  # of one that makes a state for parameters without a gradient
        # Fused optimizers, and those that write to `.data`, leave the version counter as it is; then a graph that still
        # needs the weight would go on with the new value and give wrong gradients.
        torch.autograd.graph.increment_version(parameters)
        if counted is not None:
            counted.release({self._places[id(parameter)][0] for parameter in parameters})

    def finish(self) -> None:
        """Complete the step, after the optimizer's own `step` has done the rest."""
        if self._globals is not None:
            self._globals.finish()
        entries, self._entries = self._entries, None
        if entries is not None and len(self.optimizer.state) != entries:
            self._order_entries_from(entries)

    def abandon(self) -> None:
        """Forget the step under way, because another state was loaded."""
        self._entries = None
        if self._globals is not None:
            self._globals.abandon()

    def _order_entries_from(self, first: int) -> None:
        """Put the entries that this step has added to the state into the order in which one undivided step does."""
        state = self.optimizer.state
        number = {id(each): at for at, each in enumerate(p for g in self.optimizer.param_groups for p in g["params"])}
        for key in sorted(list(state)[first:], key=lambda key: number.get(id(key), -1)):
            state[key] = state.pop(key)

    def _narrowed(self, parameters: Sequence[torch.Tensor], held: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
        """Return, for each group, what it holds during a partial step."""
        if not all(_is_at(parameter, self._places.get(id(parameter)), held) for parameter in parameters):
            self._places = {
                id(each): (number, at) for number, params in enumerate(held) for at, each in enumerate(params)
            }
        narrowed: list[list[torch.Tensor]]
        if self.trusted or self._layout == "narrow":
            narrowed = [[] for _ in held]
            for parameter in sorted(parameters, key=lambda each: self._places[id(each)]):
                narrowed[self._places[id(parameter)][0]].append(parameter)
        else:
            narrowed = [[self._empty] * len(params) for params in held]
            for parameter in parameters:
                number, at = self._places[id(parameter)]
                narrowed[number][at] = parameter
        return narrowed

    def _step_without_autocast(self) -> None:
        """Step outside of the autocast in which `backward` was called, as the user's own step is."""
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            self._step(self.optimizer) if self._globals is None else self._step_without_hooks()

    def _step_without_hooks(self) -> None:
        """Step an optimizer that may call the step of its base class, hooks of the user and all."""
        optimizer: Any = self.optimizer
        before, after = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
        optimizer._optimizer_step_pre_hooks = optimizer._optimizer_step_post_hooks = OrderedDict()
        try:
            self._step(optimizer)
        finally:
            optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks = before, after


def is_of_torch(optimizer: torch.optim.Optimizer) -> bool:
    """Whether this is an optimizer of `torch.optim` itself: those keep nothing per step outside of a parameter."""
    kind = type(optimizer)
    return kind.__module__.split(".")[:2] == ["torch", "optim"] and getattr(torch.optim, kind.__name__, None) is kind


def step_of_class(kind: type[torch.optim.Optimizer]) -> Callable[[torch.optim.Optimizer], Any]:
    """Return the step that a class defines, without the hooks that `Optimizer` wraps around it when first made."""
    step: Any = kind.step
    return step.__wrapped__ if getattr(step, "hooked", False) else step  # type: ignore[no-any-return]  # see torch


def _is_at(parameter: torch.Tensor, place: tuple[int, int] | None, held: list[list[torch.Tensor]]) -> bool:
    """Whether a parameter is still in its place."""
    if place is None or place[0] >= len(held) or place[1] >= len(held[place[0]]):
        return False
    return held[place[0]][place[1]] is parameter
