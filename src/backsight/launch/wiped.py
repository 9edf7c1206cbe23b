"""Backwards between two steps whose gradients are gone when the next begins."""

from __future__ import annotations

import weakref
from collections import Counter

import torch

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.wiped import wiped
from backsight.tape import Graph

_ENOUGH = 2
"""Steps in which it has to be so: what runs once before the training is a trial."""


class Wiped:
    """Follows the backwards that are audited, from one to the next."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._times: Counter[tuple[Site, Site]] = Counter()
        self._last: tuple[Site, int, list[weakref.ref[torch.Tensor]]] = ("", 0), -1, []

    def audited(self, site: Site, steps: int, graph: Graph) -> None:
        """Note a backward after so many steps, before it has written a gradient."""
        (before, at, refs), held = self._last, [leaf.tensor() for leaf in graph.leaves if leaf.owner]
        self._last = site, steps, [weakref.ref(each) for each in held if each is not None]
        lost = [each for ref in refs if (each := ref()) is not None]
        if at != steps or before == site or not lost or len(lost) < len(refs) or not all(map(_is_gone, lost)):
            return
        self._times[before, site] += 1
        if self._times[before, site] == _ENOUGH:
            found = wiped(before, site, lost, max(steps - _ENOUGH + 2, 1))
            self.findings += [found] if found is not None else []


def _is_gone(parameter: torch.Tensor) -> bool:
    return parameter.grad is None or is_zero(parameter.grad) is True
