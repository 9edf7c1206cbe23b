"""Batches that are rows of stored data, and whether the program changes them in place, pass after pass."""

from __future__ import annotations

from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.changed_batch import changed_batch
from backsight.launch.sign import Sign
from backsight.tape import grad_fn, storage_key, tensors_in
from backsight.tape.saved import is_readable
from backsight.tracing import Watch

_MOST = 16
"""Stores that are followed."""


class Batches(Sign):
    """Notes at which places of which memory the inputs of models lie, and asks the watch what has changed that."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._places: dict[int, set[int]] = {}
        self._finding: Finding | None = None

    def returned(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        for each in tensors_in(given) if self._finding is None else ():
            if not isinstance(each, torch.Tensor) or not _is_of_rows(each):
                continue
            key = storage_key(each.untyped_storage())
            if key not in self._places and len(self._places) >= _MOST:
                return
            places = self._places.setdefault(key, set())
            places.add(int(each.storage_offset()))
            if len(places) > 1:
                self._finding = changed_batch(each, self._watch.changes(each), self._watch.steps.count + 1)

    @property
    def findings(self) -> list[Finding]:
        return [self._finding] if self._finding is not None else []


def _is_of_rows(tensor: torch.Tensor) -> bool:
    """Whether a tensor is some rows of a larger one, as a slice gives them."""
    if not is_readable(tensor) or grad_fn(tensor) is not None or tensor.requires_grad or tensor.dim() < 2:
        return False
    if not tensor.is_floating_point() or tensor.layout != torch.strided or not tensor.is_contiguous():
        return False
    return 0 < tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()
