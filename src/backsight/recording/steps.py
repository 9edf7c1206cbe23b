"""Where a training step ends, by PyTorch's own hooks: at an optimizer's step, or between a backward pass and a call.

And which step a mark is about: the one under way, or the one that has just ended.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from backsight.naming import search
from backsight.recording.cost import Cost
from backsight.recording.held import parameters_of, plain_of, size_of
from backsight.recording.hook import Hook
from backsight.recording.observed import Observed
from backsight.recording.optimizer_steps import leave, listen
from backsight.recording.page import Page
from backsight.snapshot import stepping

Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | Mapping[str, torch.optim.Optimizer] | None


PATIENCE = 16
"""An optimizer that steps so often while the one that should end the step does not, ends steps from there on. (A critic
may step ten times for one step of the generator; the optimizer of an earlier phase never steps again.)"""


class StepEnds:
    """Calls back before and after the steps of optimizers, and tells whether a step of the training ends there.

    Of several optimizers it is the last one that ends it. If none were given, those that hold a parameter of the models
    are found when they step, and the one found last ends it; the first step waits for those that have yet to be found,
    unless those that have stepped hold all that they hold, or one of these steps again. Of a whole program every
    optimizer counts. Where another steps in place of one that was given, those that step are found from there on.

    What an optimizer holds and no module owns is looked at from its first step on, under the name of its variable.
    """

    def __init__(
        self,
        observed: Observed,
        optimizers: Sequence[torch.optim.Optimizer] | None,
        before: Callable[[torch.optim.Optimizer], None],
        after: Callable[[torch.optim.Optimizer, bool], None],
        adopted: Callable[[], None],
        replaced: Callable[[torch.optim.Optimizer], None],
        deserted: Callable[[], None],
        failed: Callable[[Exception], None],
        cost: Cost,
    ):
        self._observed = observed
        self._given = None if optimizers is None else [weakref.ref(optimizer) for optimizer in optimizers]
        self._known: dict[int, tuple[weakref.ref[torch.optim.Optimizer], bool, int]] = {}
        """Those that were looked at, each with whether it is one of ours, and how many tensors it held then."""
        self._last: weakref.ref[torch.optim.Optimizer] | None = None if self._given is None else self._given[-1]
        self._ender = self._last
        """What ends steps now, as far as that was told."""
        self._awaited: list[weakref.ref[torch.optim.Optimizer]] = []
        """Those that have yet to step for the first time, and belong to the first step."""
        self._counts: Counter[int] = Counter()
        """How often each has stepped since a step has ended."""
        self.count = 0
        """Steps of optimizers that are looked at."""
        self._before, self._after, self._adopted, self._replaced = before, after, adopted, replaced
        self._deserted = deserted
        self._inside: list[int] = []
        """Those whose steps are under way: a wrapper's, around that of the one inside."""
        self.stepping, self.stepped = Hook(self._pre_step, failed, cost), Hook(self._post_step, failed, cost)

    def attach(self) -> None:
        """Begin to look; it costs next to nothing, and goes on while nothing is recorded."""
        listen(self)

    def adopt(self) -> None:
        """Look at what the given optimizers hold before they step: gradients arrive earlier."""
        for each in self._given or ():
            if (optimizer := each()) is not None:
                self._observed.adopt(optimizer)

    def detach(self) -> None:
        """Look no more."""
        leave(self)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return those whose steps are looked at, as far as they are known."""
        references = (
            self._given if self._given is not None else [each for each, ours, _ in self._known.values() if ours]
        )
        return [held for each in references if (held := each()) is not None]

    def several(self) -> bool:
        """Whether the program trains with several optimizers."""
        if self._given is not None:
            return len(self._given) > 1
        ours = self._observed.parameters().keys()
        found = (each for each in _alive() if not ours.isdisjoint(parameters_of(each)))
        return sum(1 for _ in found) > 1

    @property
    def amid(self) -> bool:
        """Whether an optimizer is stepping: it may call a closure, with backward passes of its own."""
        return bool(self._inside)

    def expected(self) -> bool:
        """Whether the program has an optimizer of our parameters, which may end steps though it has ended none yet."""
        if self._given is not None or self.optimizers():
            return True
        ours = self._observed.parameters().keys()
        return any(not ours.isdisjoint(parameters_of(each)) for each in _alive())

    def _pre_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self._observed.gone():
            self._deserted()
        elif self._concerns(optimizer):
            self._inside.append(id(optimizer))
            self._before(optimizer)

    def _post_step(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._observed.gone() and self._concerns(optimizer):
            self.count += 1
            if id(optimizer) in self._inside:
                del self._inside[self._inside.index(id(optimizer)) :]  # and of those inside whose steps raised
            self._after(optimizer, self._ends_with(optimizer))

    def _ends_with(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the step of the training ends with this step of an optimizer."""
        if self._given is None:
            self._counts[id(optimizer)] += 1
            again = self._counts[id(optimizer)] > 1
            self._awaited = [] if again else self._still_awaited(optimizer)
            if self._counts[id(optimizer)] >= PATIENCE:
                self._last = weakref.ref(optimizer)
        ends = not self._awaited and self._last is not None and self._last() is optimizer
        if ends:
            self._counts.clear()
            self._ended_by(optimizer)
        return ends

    def _ended_by(self, optimizer: torch.optim.Optimizer) -> None:
        """Tell of an optimizer that ends steps in place of another."""
        if self._ender is not None and self._ender() is not optimizer:
            self._replaced(optimizer)
        self._ender = weakref.ref(optimizer)

    def _still_awaited(self, stepped: torch.optim.Optimizer) -> list[weakref.ref[torch.optim.Optimizer]]:
        """Return those awaited that hold parameters of ours which none that has stepped holds."""
        awaited = [each for each in self._awaited if (held := each()) is not None and held is not stepped]
        if not awaited:
            return []
        rest = self._trained(each() for each in awaited) - self._held(self.optimizers())
        return [each for each in awaited if (held := each()) is not None and not rest.isdisjoint(parameters_of(held))]

    def _trained(self, optimizers: Iterable[torch.optim.Optimizer | None]) -> set[int]:
        """Return the ids of what the models hold and, in a whole program, of what these do that no module can own."""
        plain = optimizers if self._observed.whole_program else ()
        return {*self._observed.parameters()}.union(*(plain_of(each) for each in plain if each is not None))

    @staticmethod
    def _held(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
        """Return the ids of what these hold together."""
        return {parameter for each in optimizers for parameter in parameters_of(each)}

    def _concerns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this optimizer is one of ours."""
        size = size_of(optimizer)
        held, ours, had = self._known.get(id(optimizer), (None, False, 0))
        met = ours and held is not None and held() is optimizer
        if held is None or held() is not optimizer or had != size or (not ours and self._lost()):
            ours = self._is_ours(optimizer)
            self._known[id(optimizer)] = weakref.ref(optimizer), ours, size
            if ours and not met:
                self._meet(optimizer)
            if ours and self._observed.adopt(optimizer):
                self._adopted()
        return ours

    def _lost(self) -> bool:
        """Whether one that was given is gone."""
        return self._given is not None and any(each() is None for each in self._given)

    def _is_ours(self, optimizer: torch.optim.Optimizer) -> bool:
        if self._given is not None:
            if any(each() is optimizer for each in self._given):
                return True
            if not self._replaces(optimizer):
                return False
            self._given = None
            self._ended_by(optimizer)
        return self._observed.whole_program or not parameters_of(optimizer).isdisjoint(self._observed.parameters())

    def _replaces(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether it steps in place of one that was given: that is gone, or it holds all that this one trains.

        One that trains nothing of ours any more, as all its parameters were replaced, is as good as gone.
        """
        ours, held = self._observed.parameters().keys(), parameters_of(optimizer)
        given = [each() for each in self._given or ()]
        there = [each for each in given if each is not None and not ours.isdisjoint(parameters_of(each))]
        if len(there) < len(given) and not held.isdisjoint(ours - self._held(there)):
            return True
        trained = [parameters_of(each) & ours for each in there if id(each) not in self._inside]
        return any(each and each <= held for each in trained)

    def _meet(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at an optimizer that steps for the first time."""
        if self._given is None:
            if not any(ours for each, ours, _ in self._known.values() if each() is not optimizer):
                alive = _alive()
                others = self._trained(alive) - parameters_of(optimizer)
                self._awaited = [weakref.ref(each) for each in alive if not others.isdisjoint(parameters_of(each))]
            self._last = weakref.ref(optimizer)


def _alive() -> list[torch.optim.Optimizer]:
    """Return every optimizer that the program's variables lead to.

    Not of all objects there are: to hold one that another thread is still building ends that thread by SystemError.
    """
    found = search([], collect=(torch.optim.Optimizer,)).found
    return [each for each, _ in found if isinstance(each, torch.optim.Optimizer)]


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
            f"optimizer must be a torch.optim.Optimizer or several of them, not {type(optimizer).__name__}."
        )
    return [stepping(each) for each in found]


class Marking:
    """Tells of each tag its step.

    Between the end of a step and the next forward pass both are meant by somebody: `epoch` is told at the head of a
    loop, and `loss` at its foot, after the optimizer's step. A tag of the first sort is there before any step has
    ended, and one of the second is not. So the first time that a tag is given says where it is given always.
    """

    def __init__(self) -> None:
        self._ahead: set[str] = set()
        """Tags that were first given in the step that they are about."""
        self._behind: set[str] = set()
        """Tags that were first given when that step had ended."""

    def steps(self, under_way: int, page: Page | None, tags: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the tags of each step."""
        begun = under_way == 0 or has_begun(page)
        found: dict[int, dict[str, Any]] = {}
        for name, value in tags.items():
            if name not in self._ahead and name not in self._behind:
                (self._ahead if begun else self._behind).add(name)
            ended = name in self._behind and not begun
            found.setdefault(under_way - ended, {})[name] = value
        return found


_AT_REST = ("weight", "buffer", "eval_input", "eval_output")
"""Kinds of rows that evaluation between two steps leaves as well."""


def has_begun(page: Page | None) -> bool:
    """Whether training has been recorded of the step under way; the newest rows are the likeliest to tell."""
    return page is not None and any(row[0].kind not in _AT_REST for row in reversed(page.rows))


PASSES = 16
"""Backward passes after which an optimizer that the program has is not waited for any longer; twice as many as it took
before, if that is more."""


class Backwards:
    """Counts steps by backward passes, while it is clear that no optimizer of the program ends them.

    An optimizer that is there is waited for, as it may accumulate gradients first. But where a parameter is written to
    meanwhile, a step was taken by hand.
    """

    def __init__(self, observed: Observed, ends: StepEnds):
        self._observed, self._ends = observed, ends
        self._passed = 0
        """Backward passes since a parameter was written to, or an optimizer has stepped."""
        self._patience = PASSES
        self._without = False
        """Whether the program had no optimizer when it was asked."""
        self.counting = False
        """Whether steps are counted so."""

    def end_steps(self, arrived: Mapping[int, int | None]) -> bool:
        """Whether a step ends here, between a backward pass and a call.

        arrived: the parameters that the pass has given gradients, by id, each with its version then.
        """
        if self._ends.amid:  # the optimizer itself asks for this pass
            return False
        by_hand = self._observed.written(arrived)
        self._passed = 0 if by_hand else self._passed + 1
        self.counting = by_hand or self._passed >= self._patience or self._has_none()
        return self.counting

    def stepped(self) -> None:
        """Note that an optimizer has stepped: steps end there."""
        self._patience = max(self._patience, 2 * (self._passed + 1))
        self._passed, self._without, self.counting = 0, False, False

    def _has_none(self) -> bool:
        """Whether the program has no optimizer; a search is too dear for every pass."""
        self._without = self._without or not self._ends.expected()
        return self._without
