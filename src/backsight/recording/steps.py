"""Where a training step ends: at an optimizer's step, by PyTorch's own hooks."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook

from backsight.recording._torch import before_step_hooks, new_hook_key
from backsight.recording.hook import Hook
from backsight.recording.observed import Observed
from backsight.snapshot import stepping

Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | Mapping[str, torch.optim.Optimizer] | None


PATIENCE = 16
"""An optimizer that steps so often while the one that should end the step does not, ends steps from there on. (A critic
may step ten times for one step of the generator; the optimizer of an earlier phase never steps again.)"""


class _PostHook(Hook):
    """The hook after the steps of an optimizer, which may let some of them pass; that costs no further call."""

    __slots__ = ("left",)

    def __init__(self, take: Callable[..., None], failed: Callable[[Exception], None]):
        super().__init__(take, failed)
        self.left = 0
        """Steps that are yet to pass."""

    def __call__(self, *args: Any) -> None:
        if not is_compiling() and self.left:  # in this order: of what is compiled, `left` is to be no part
            self.left -= 1
        else:
            super().__call__(*args)


class StepEnds:
    """Calls back before and after the steps of optimizers, and tells whether a step of the training ends there.

    Of several optimizers it is the last one that ends it. If none were given, those that hold a parameter of the models
    are found when they step, and the one found last ends it; the first step waits for those that have yet to be found.
    """

    def __init__(
        self,
        observed: Observed,
        optimizers: Sequence[torch.optim.Optimizer] | None,
        before: Callable[[torch.optim.Optimizer], None],
        after: Callable[[torch.optim.Optimizer, bool], None],
        failed: Callable[[Exception], None],
    ):
        self._observed = observed
        self._given = None if optimizers is None else [weakref.ref(optimizer) for optimizer in optimizers]
        self._known: dict[int, tuple[weakref.ref[torch.optim.Optimizer], bool]] = {}
        self._last: weakref.ref[torch.optim.Optimizer] | None = None if self._given is None else self._given[-1]
        self._awaited: list[weakref.ref[torch.optim.Optimizer]] = []
        """Those that have yet to step for the first time, and belong to the first step."""
        self._counts: Counter[int] = Counter()
        """How often each has stepped since a step has ended."""
        self._before, self._after = before, after
        self._pre, self._post = Hook(self._pre_step, failed), _PostHook(self._post_step, failed)
        self._let_pass = 0
        self._handles: list[Any] = []
        self._watched: list[dict[int, Any]] = []
        self._key = new_hook_key()

    def attach(self) -> None:
        """Install the hook that counts steps; it stays while nothing is recorded."""
        self.detach()
        if self._given is None:
            self._handles.append(register_optimizer_step_post_hook(self._post))
        else:
            self._handles += [o.register_step_post_hook(self._post) for r in self._given if (o := r()) is not None]

    def detach(self) -> None:
        """Remove every hook."""
        self.unwatch()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def watch(self) -> None:
        """Call back before steps as well, while a step is recorded."""
        self.unwatch()
        alive = None if self._given is None else [held for each in self._given if (held := each()) is not None]
        self._watched = [before_step_hooks()] if alive is None else [before_step_hooks(each) for each in alive]
        for table in self._watched:
            table[self._key] = self._pre

    def unwatch(self) -> None:
        """Call back after steps only."""
        for table in self._watched:
            table.pop(self._key, None)
        self._watched = []

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return those whose steps are looked at, as far as they are known."""
        references = self._given if self._given is not None else [each for each, ours in self._known.values() if ours]
        return [held for each in references if (held := each()) is not None]

    def let_pass(self, steps: int) -> None:
        """Do not call back for so many steps of the training, where it is one optimizer that takes them."""
        alone = self._given is not None and len(self._given) == 1
        self._let_pass = self._post.left = steps if alone else 0

    def passed(self) -> int:
        """Return how many steps have passed in this way since this was last asked."""
        passed, self._let_pass = self._let_pass - self._post.left, self._post.left
        return passed

    def _pre_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._concerns(optimizer):
            self._before(optimizer)

    def _post_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._given is not None:  # at every step of the training, recorded or not: no more calls than need be
            self._after(optimizer, self._given[-1]() is optimizer)
        elif self._concerns(optimizer):
            self._after(optimizer, self._ends_with(optimizer))

    def _ends_with(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the step of the training ends with this step of an optimizer."""
        if self._given is None:
            self._awaited = [each for each in self._awaited if (held := each()) is not None and held is not optimizer]
            self._counts[id(optimizer)] += 1
            if self._counts[id(optimizer)] >= PATIENCE:
                self._awaited, self._last = [], weakref.ref(optimizer)
        ends = not self._awaited and self._last is not None and self._last() is optimizer
        if ends:
            self._counts.clear()
        return ends

    def _concerns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this optimizer is one of ours."""
        if self._given is not None:
            return True
        known = self._known.get(id(optimizer))
        if known is None or known[0]() is not optimizer:
            ours = self._observed.parameters()
            mine = parameters_of(optimizer)
            known = weakref.ref(optimizer), not mine.isdisjoint(ours)
            if known[1] and not any(concerns for _, concerns in self._known.values()):
                others = ours.keys() - mine
                self._awaited = [weakref.ref(each) for each in _alive() if not others.isdisjoint(parameters_of(each))]
            if known[1]:
                self._last = known[0]
            self._known[id(optimizer)] = known
        return known[1]


def _alive() -> list[torch.optim.Optimizer]:
    """Return every optimizer there is; to be called once, as this looks at all objects of the program."""
    return [each for each in gc.get_objects() if issubclass(type(each), torch.optim.Optimizer)]


def parameters_of(optimizer: torch.optim.Optimizer) -> set[int]:
    """Return the ids of what an optimizer holds itself; a wrapper that asks another one by a property holds nothing."""
    groups = object.__getattribute__(optimizer, "__dict__").get("param_groups")
    held = [group.get("params") for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    return {id(parameter) for parameters in held if isinstance(parameters, list) for parameter in parameters}


def given_optimizers(optimizer: Any) -> list[torch.optim.Optimizer] | None:
    """Return the optimizers given to `record` as a list, those inside of wrappers, or None if there are none.

    Raises:
        TypeError: if they are something else.
    """
    if optimizer is None:
        return None
    if issubclass(type(optimizer), torch.optim.Optimizer):
        return [stepping(optimizer)]
    values = optimizer.values() if isinstance(optimizer, Mapping) else optimizer
    found = list(values) if isinstance(optimizer, (Mapping, list, tuple)) else []
    if not found or not all(issubclass(type(each), torch.optim.Optimizer) for each in found):
        raise TypeError(
            f"optimizer has to be a torch.optim.Optimizer, or several of them, not {type(optimizer).__name__}."
        )
    return [stepping(each) for each in found]
