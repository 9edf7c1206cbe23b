"""How large the inputs of a model are, at spaced steps: data that are changed in place grow from epoch to epoch.

And whether they are the same: a loader that is begun anew for each step gives its first batch alone.
"""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.data_changed import changed_batch, growing
from backsight.diagnosis.drawn import same_batch
from backsight.launch.sign import Sign, caller
from backsight.naming import search
from backsight.tape import grad_fn, storage_key, tensors_in
from backsight.tape.saved import is_readable
from backsight.tracing import Watch

_TIMES = 4.0
"""How many times as large, or as small, inputs have to become."""

_AT = (1, 16, 31)
"""Steps at which it is looked: besides these, those at which all is looked at again."""

_SAME = 3
"""Looks at which the inputs have had the same values, though they were other tensors."""

_LARGEST = 1 << 20


class Inputs(Sign):
    """Follows the size of what the first model of a program is given that no gradient goes back to."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._model: weakref.ref[torch.nn.Module] | None = None
        self._sizes: list[tuple[int, float]] = []
        self._same: list[int] = []
        self._last: tuple[weakref.ref[torch.Tensor], object] | None = None
        self._growing: list[Finding] = []
        self._repeated: list[Finding] = []

    @property
    def findings(self) -> list[Finding]:
        """What holds as of the last look."""
        return [*self._growing, *self._repeated]

    def returned(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        model, at = module, self._watch.steps.count + 1
        if self._model is None:
            self._model = weakref.ref(model)
        if self._model() is not model or (at < 100 and at not in _AT) or any(at < 1.5 * s for s, _ in self._sizes[-1:]):
            return
        size = _size(given) if model.training else None
        if size is None:
            return
        self._sizes = [*self._sizes, (at, size)][-8:]
        self._growing = []
        self._compare(model, given, at)
        if len(self._sizes) > 2 and _goes_one_way([size for _, size in self._sizes]):
            name = next((each.path for each in search([model], limit=1).names[0]), type(model).__name__)
            found = growing(name, self._sizes, caller())
            self._growing = [found] if found is not None else []

    def _compare(self, model: torch.nn.Module, given: Any, at: int) -> None:
        """Look whether an input has the values that it had at the last look, and is another tensor."""
        tensor = _first(given)
        if tensor is None or self._growing:
            return
        mark = tuple(tensor.shape), float(tensor.detach().double().sum()), _sample(tensor)
        before, self._last = self._last, (weakref.ref(tensor), mark)
        if before is not None and (before[1] != mark or before[0]() is tensor):
            self._same.clear()
        self._same.append(at)
        self._repeated = []
        if len(self._same) >= _SAME and tensor.dim():
            name = next((each.path for each in search([model], limit=1).names[0]), type(model).__name__)
            found = same_batch(name, self._same, tensor.shape[0], caller())
            self._repeated = [found] if found is not None else []


def _goes_one_way(sizes: list[float]) -> bool:
    """Whether sizes grow, or shrink, from look to look, and in all by much."""
    up = all(a <= b for a, b in pairwise(sizes)) and sizes[-1] > _TIMES * sizes[0] > 0
    down = all(a >= b for a, b in pairwise(sizes)) and sizes[0] > _TIMES * sizes[-1] > 0
    return up or down


def _first(given: Any) -> torch.Tensor | None:
    """Return the first floating point input that can be read."""
    found = next((t for t in tensors_in(given) if isinstance(t, torch.Tensor) and t.is_floating_point()), None)
    if found is None or not is_readable(found) or grad_fn(found) is not None or not 1 < found.numel() <= _LARGEST:
        return None
    return found


def _sample(tensor: torch.Tensor) -> tuple[float, ...]:
    flat = tensor.detach().reshape(-1)
    return tuple(flat[:: max(1, len(flat) // 32)].tolist())


def _size(given: Any) -> float | None:
    """Return the root of the mean square of the first floating point input; None where it cannot be read."""
    found = _first(given)
    if found is None:
        return None
    with torch.no_grad():
        size = float(found.detach().float().square().mean().sqrt())
    return size if size == size and size != float("inf") else None


_STORES = 16
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
            if key not in self._places and len(self._places) >= _STORES:
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
