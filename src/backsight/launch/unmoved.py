"""Parameters that the steps of an optimizer have not moved so far."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.rules.unmoved import told_unmoved
from backsight.launch.sign import Sign, caller, key_of
from backsight.naming import search
from backsight.tracing import Watch
from backsight.tracing.moves import LOOKS


class Unmoved(Sign):
    """Asks the watch at spaced steps of each optimizer; what moves later is no finding any more."""

    def __init__(self, watch: Watch) -> None:
        self._moves = watch.steps.moves
        self._found: dict[int, tuple[Finding, weakref.ref[torch.optim.Optimizer]]] = {}

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that an optimizer is about to make a step."""
        if self._moves.steps(optimizer) in LOOKS:
            self._found.pop(key_of(optimizer), None)
            still = self._moves.unmoved(optimizer)
            name = next((n.path for n in search([optimizer], limit=1).names[0]), "optimizer") if still else ""
            found = told_unmoved(name, optimizer, still, caller().f_code.co_filename) if still else None
            if found is not None:
                self._found[key_of(optimizer)] = found, weakref.ref(optimizer)

    @property
    def findings(self) -> Iterator[Finding]:
        return (found for found, ref in self._found.values() if self._is_unmoved(ref()))

    def _is_unmoved(self, optimizer: torch.optim.Optimizer | None) -> bool:
        """Whether what an optimizer did not move, it does not move now; one that is gone has moved nothing since."""
        return optimizer is None or bool(self._moves.unmoved(optimizer))
