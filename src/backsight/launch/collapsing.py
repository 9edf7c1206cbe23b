"""Whether the outputs of a model become the same for all samples, where the loss asks for nothing else."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.views import collapsed
from backsight.launch.sign import Audit, Sign, Step
from backsight.tape import grad_fn, identity, sequence_number, tensors_in
from backsight.tape.saved import is_readable
from backsight.tracing import Watch

_LATE = 64
"""Optimizer steps after which outputs are compared with those of the beginning."""

_APART, _ALIKE = 0.9, 0.98
"""Cosines between the outputs of different samples, on average: these are different, those are the same."""

_FEWEST = 8
_MOST = 64
_LARGEST = 1 << 20


class Collapsing(Sign):
    """Compares the rows that a model returns, at the first step and at the looks of later ones."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._model: weakref.ref[torch.nn.Module] | None = None
        self._first: float | None = None
        self._latest: float | None = None
        self._found: Finding | None = None
        self._made: set[tuple[int, int]] = set()
        """What identifies the nodes of what modules have returned since the last step."""

    @property
    def findings(self) -> list[Finding]:
        return [self._found] if self._found is not None else []

    def returned(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        late = self._watch.steps.count >= _LATE
        if late and len(self._made) < _MOST:
            self._made |= {found for t in tensors_in(output) if (found := _identity(t)) is not None}
        if self._first is not None and (not late or self._model is None or self._model() is not module):
            return
        made, before = _rows(output), _rows(given)
        if made is None or before is None or len(made) != len(before) or not module.training:
            return
        alike = _cosine(made)
        if self._first is None:
            if alike < _APART and _cosine(before) < _APART:
                self._first, self._model = alike, weakref.ref(module)
        else:
            self._latest = alike if _cosine(before) < _APART else None
            if alike < _APART:
                self._found = None

    def each_step(self, step: Step) -> None:
        self._made.clear()

    def audited(self, audit: Audit) -> None:
        if self._latest is None or self._latest < _ALIKE or self._first is None or audit.report.graph is None:
            return
        found = collapsed(audit.report.graph, self._made, self._first, self._latest, audit.steps + 1)
        self._found = self._found or found


def _identity(tensor: Any) -> tuple[int, int] | None:
    node = grad_fn(tensor) if isinstance(tensor, torch.Tensor) else None
    return (identity(node), sequence_number(node)) if node is not None else None


def _rows(held: Any) -> torch.Tensor | None:
    """Return the first table of numbers among tensors, if it can be read."""
    found = next((t for t in tensors_in(held) if isinstance(t, torch.Tensor) and t.is_floating_point()), None)
    if found is None or not is_readable(found) or found.dim() < 2 or len(found) < _FEWEST or found.numel() > _LARGEST:
        return None
    rows = found.detach().reshape(len(found), -1)
    return rows if rows.shape[1] > 1 else None  # single numbers have no direction


def _cosine(rows: torch.Tensor) -> float:
    """Return the cosine between each row and the next, on average."""
    unit = torch.nn.functional.normalize(rows.double(), dim=1)
    return float((unit[1:] * unit[:-1]).sum(1).mean())
