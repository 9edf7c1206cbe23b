"""Backwards between two steps whose gradients are gone when the next begins."""

from __future__ import annotations

import weakref
from collections import Counter

import torch

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.rules.thrown_away import wiped
from backsight.launch.sign import Audit, Sign

_ENOUGH = 2
"""Steps in which it has to be so: what runs once before the training is a trial."""


class Wiped(Sign):
    """Follows the backwards that are audited, from one to the next."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._times: Counter[tuple[Site, Site]] = Counter()
        self._last: tuple[Site, int, list[weakref.ref[torch.Tensor]]] = ("", 0), -1, []

    @property
    def findings(self) -> list[Finding]:
        return self._found

    def audited(self, audit: Audit) -> None:
        """Note a backward before it has written a gradient."""
        site, steps, graph = audit.site, audit.steps, audit.report.graph
        if graph is None:
            return
        (before, at, refs), held = self._last, [leaf.tensor() for leaf in graph.leaves if leaf.owner]
        self._last = site, steps, [weakref.ref(each) for each in held if each is not None]
        lost = [each for ref in refs if (each := ref()) is not None]
        if at != steps or before == site or not lost or len(lost) < len(refs) or not all(map(_is_gone, lost)):
            return
        self._times[before, site] += 1
        if self._times[before, site] == _ENOUGH:
            found = wiped(before, site, lost, max(steps - _ENOUGH + 2, 1))
            self._found += [found] if found is not None else []


def _is_gone(parameter: torch.Tensor) -> bool:
    return parameter.grad is None or is_zero(parameter.grad) is True
