"""Backwards between two steps whose gradients are gone when the next begins."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.evidence.turns import zeroed_in_turns
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.idle_backward import idle
from backsight.diagnosis.rules.accumulated import in_turns, wiped
from backsight.launch.sign import Audit, Sign, Step
from backsight.naming import search
from backsight.source.body import body_around
from backsight.tracing.steps import parameters

_ENOUGH = 2
"""Steps in which it has to be so: what runs once before the training is a trial."""

_LONGEST = 64
"""Steps for which is looked who uses the gradients of a backward."""


@dataclass(slots=True)
class _Waiting:
    """An audited backward, what it reaches, and what it gave by the first step after it, of another optimizer."""

    site: Site
    number: int
    thread: int
    reached: dict[int, weakref.ref[torch.Tensor]]
    beside: weakref.ref[torch.optim.Optimizer] | None = None
    gave: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)


class Idle(Sign):
    """Follows the gradients of the backwards that are audited to the step of the optimizer that holds what they reach.

    Asked is only whether they are other tensors by then: what is zeroed in place counts as used.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._used: set[Site] = set()
        self._lost: dict[Site, set[int]] = {}
        """The steps at which the gradients of a backward were gone."""
        self._found: dict[Site, Finding] = {}

    def audited(self, audit: Audit) -> None:
        graph, site = audit.report.graph, audit.site
        if graph is None or site in self._used:
            return
        held = [p for leaf in graph.leaves if leaf.owner and (p := leaf.tensor()) is not None]
        if held:
            self._waiting.append(
                _Waiting(site, audit.number, threading.get_ident(), {id(p): weakref.ref(p) for p in held})
            )

    def each_step(self, step: Step) -> None:
        if self._waiting:
            held = {id(p): p for p in parameters(step.optimizer)}
            self._waiting = [each for each in self._waiting if self._waits(each, step, held)]

    def _waits(self, waiting: _Waiting, step: Step, held: dict[int, torch.Tensor]) -> bool:
        site, own = waiting.site, [p for key, p in held.items() if key in waiting.reached]
        if waiting.beside is None:
            every = [p for ref in waiting.reached.values() if (p := ref()) is not None]
            if waiting.thread != threading.get_ident() and any(p.is_cpu for p in every):
                return False
            waiting.beside = weakref.ref(step.optimizer)
            waiting.gave = {id(p): weakref.ref(p.grad) for p in every if p.grad is not None}
            if own or len(waiting.gave) < len(waiting.reached):
                self._use(site)
            return not own and site not in self._used
        if not own:
            return step.number - waiting.number < _LONGEST and site not in self._used
        every = [p for ref in waiting.reached.values() if (p := ref()) is not None]
        if any(p.grad is not None and waiting.gave[id(p)]() is p.grad for p in every):
            self._use(site)
            return False
        lost, beside = self._lost.setdefault(site, set()), waiting.beside()
        lost.add(step.number)
        if len(lost) >= _ENOUGH and site not in self._found and beside is not None:
            found = idle(site, every, beside, step.optimizer, waiting.number + 1)
            if found is None:
                self._use(site)
            else:
                self._found[site] = found
        return False

    def _use(self, site: Site) -> None:
        self._used.add(site)
        self._found.pop(site, None)


class Wiped(Sign):
    """Follows the backwards that are audited, from one to the next."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._times: Counter[tuple[Site, Site]] = Counter()
        self._last: tuple[Site, int, list[weakref.ref[torch.Tensor]]] = ("", 0), -1, []
        self._thread = 0
        """Which made the last audit: the gradients of another one's training are not read."""
        self._number = 0
        """How many steps there were by the last audit."""

    def audited(self, audit: Audit) -> None:
        """Note a backward before it has written a gradient."""
        site, steps, graph = audit.site, audit.steps, audit.report.graph
        if graph is None:
            return
        (before, at, refs), held = self._last, [leaf.tensor() for leaf in graph.leaves if leaf.owner]
        self._last = site, steps, [weakref.ref(each) for each in held if each is not None]
        others, self._thread = self._thread != threading.get_ident(), threading.get_ident()
        since, self._number = self._number + 1, audit.number
        if others:
            return
        lost = [each for ref in refs if (each := ref()) is not None]
        if at != steps and before == site and not self._found:
            gone = [each for each in lost if _is_gone(each)]
            self._found += _in_turns(site, gone, audit.stepping(since), steps)
        if at != steps or before == site or not lost or len(lost) < len(refs) or not all(map(_is_gone, lost)):
            return
        self._times[before, site] += 1
        if self._times[before, site] == _ENOUGH:
            found = wiped(before, site, lost, max(steps - _ENOUGH + 2, 1))
            self._found += [found] if found is not None else []


def _in_turns(
    site: Site, lost: Sequence[torch.Tensor], stepped: Sequence[torch.optim.Optimizer], since: int
) -> list[Finding]:
    """Return the finding of an optimizer of lost gradients that has made no step since a backward of the same line."""
    used = {id(p) for each in stepped for p in parameters(each)}
    ids = {id(each) for each in lost}
    body = body_around(*site) if stepped and ids - used else None
    if body is None:
        return []
    names = []
    for each, name in search((), collect=(torch.optim.Optimizer,)).found:
        if not isinstance(each, torch.optim.Optimizer) or any(each is other for other in stepped):
            continue
        held = parameters(each)
        if held and all(id(p) in ids for p in held):
            names.append(name.path)
    turns = zeroed_in_turns(body, site[1], names) if names else None
    return [in_turns(turns, max(since, 1))] if turns is not None else []


def _is_gone(parameter: torch.Tensor) -> bool:
    return parameter.grad is None or is_zero(parameter.grad) is True
