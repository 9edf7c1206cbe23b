"""Losses that lead through a network to what is trained, while the network's own gradients wait for their step."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from dataclasses import dataclass, field

import torch

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.rules.left_gradient import has_target, leads_through, led_through
from backsight.launch.sign import Audit, Sign, Step
from backsight.tape import Graph
from backsight.tracing import Backward, Watch
from backsight.tracing.changes import version
from backsight.tracing.steps import parameters

_ENOUGH = 2
"""Steps in which it has to be so."""


@dataclass(eq=False)
class _Own:
    """The last backward that was audited: what it trains, and whether it has a target for that."""

    backward: Backward
    ids: set[int]
    held: list[weakref.ref[torch.Tensor]]


@dataclass(eq=False)
class _Through:
    """A backward that leads through all that the one before it has trained, to something else."""

    first: Backward
    then: Backward
    held: list[weakref.ref[torch.Tensor]]
    others: set[int]
    gradient: weakref.ref[torch.Tensor]
    version: int
    used: dict[bool, weakref.ref[torch.optim.Optimizer]] = field(default_factory=dict)
    """The optimizers that have stepped since: the one that it leads through, and the one it is for."""


class Passing(Sign):
    """Follows two backwards in a row, and the steps of two optimizers after them, at spaced steps."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._last: _Own | None = None
        self._through: _Through | None = None
        self._times: Counter[tuple[Site, Site]] = Counter()
        self._found: list[Finding] = []

    def audited(self, audit: Audit) -> None:
        """Note a backward before it has written a gradient."""
        graph, now = audit.report.graph, self._latest()
        before, self._last, self._through = self._last, None, None
        if graph is None or now is None or now.call != "backward" or now.done or self._found:
            return
        held = [each for leaf in graph.leaves if leaf.owner and (each := leaf.tensor()) is not None]
        ids = {id(each) for each in held}
        if before is not None and before.backward.index == now.index - 1 and before.ids < ids:
            self._through = _led(graph, before, now, ids)
        if self._through is None and held and has_target(graph, ids):
            self._last = _Own(now, ids, [weakref.ref(each) for each in held])

    def doubled(self, step: Step) -> None:
        through, now = self._through, self._latest()
        if through is None or now is None or now.index != through.then.index or not now.done or self._found:
            return
        ids, held = {id(p) for p in parameters(step.optimizer)}, [each() for each in through.held]
        own = {id(each) for each in held if each is not None}
        if len(own) == len(held) and own <= ids and not ids & through.others:
            if self._was_added_to(through):
                through.used[True] = weakref.ref(step.optimizer)
        elif through.others <= ids and not own & ids:
            through.used[False] = weakref.ref(step.optimizer)
        if len(through.used) == 2:
            self._through = None
            self._count(through, [each for each in held if each is not None])

    def _count(self, through: _Through, held: list[torch.Tensor]) -> None:
        of, other, first, then = through.used[True](), through.used[False](), through.first.line, through.then.line
        if of is None or other is None or first is None or then is None:
            return
        key = ((first.file, first.line), (then.file, then.line))
        self._times[key] += 1
        if self._times[key] == _ENOUGH:
            self._found = [led_through(of, other, held, first.place, then.place)]

    def _was_added_to(self, through: _Through) -> bool:
        """Whether the gradient that waited for its step was changed by that backward, and by nothing but clipping."""
        parameter, gradient = through.held[0](), through.gradient()
        if gradient is None or parameter is None or parameter.grad is not gradient or self._watch.level != "exact":
            return False
        changes = self._watch.changes(gradient, since=through.version)
        seen = [each for each in changes if each.kind not in ("unseen", "backward")]
        if not all(each.via.startswith("clip_grad") for each in seen):
            return False
        return version(gradient) - through.version - sum(each.after - each.before for each in seen) == 1

    def _latest(self) -> Backward | None:
        """Return the last backward, if this thread has run it."""
        last = self._watch.backwards[-1] if self._watch.backwards else None
        return last if last is not None and last.thread == threading.get_ident() else None


def _led(graph: Graph, before: _Own, now: Backward, ids: set[int]) -> _Through | None:
    held = [each for ref in before.held if (each := ref()) is not None]
    gradient = held[0].grad if held else None
    if gradient is None or len(held) < len(before.held) or not leads_through(graph, before.ids):
        return None
    return _Through(before.backward, now, before.held, ids - before.ids, weakref.ref(gradient), version(gradient))
