"""Backwards between two steps whose gradients are gone when the next begins."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Sequence

import torch

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.evidence.turns import zeroed_in_turns
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.rules.accumulated import in_turns, wiped
from backsight.launch.sign import Audit, Sign
from backsight.naming import search
from backsight.source.body import body_around
from backsight.tracing.steps import parameters

_ENOUGH = 2
"""Steps in which it has to be so: what runs once before the training is a trial."""


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
