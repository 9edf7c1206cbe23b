"""Where weights and buffers come from: the line that wrote them last before the first step, and what it called."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from backsight.recording.statistics import readable
from backsight.tape import no_torch_dispatch, no_torch_function, storage_key
from backsight.traces.arguments import taken_apart, tensors_in, written
from backsight.traces.lines import place_here
from backsight.traces.mode import FRESH, Call
from backsight.traces.pairing import VIEWS, plain_name
from backsight.traces.records import Place

_MOST = 20_000
"""Storages that are known at a time; a dataset that is built before the model may have any number."""

_SAMPLE, _DISTINCT = 1024, 32
"""Elements of a tensor that are looked at for their precision, and different ones that there must be among them."""

_BLANK = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"))

_COPIES = frozenset(("_to_copy", "clone"))
"""What moves a model to a device or copies it: its numbers come from before."""

_COARSE: Mapping[str, Any] = {
    "bfloat16": lambda held: not (held.view(np.uint32) & 0xFFFF).any(),
    "float16": lambda held: bool((held == held.astype(np.float16)).all()),
}


@dataclass(frozen=True)
class Early:
    """A call before the first step, to be looked at once it has returned."""

    call: Call


class Beginnings:
    """Follows the operations before the first step, as long as it is not there."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str, Place]] = {}
        self._full = False

    def look(self, early: Early, result: Any) -> None:
        """Note what an operation has written."""
        func, args, kwargs = early.call
        name = plain_name(str(func))
        targets = written(func, args, kwargs)
        if not targets and (name in VIEWS or name in _BLANK):
            return
        storages = [each for each in map(_storage, targets or tensors_in(result)) if each is not None]
        if not storages or not self._has_room():
            return
        copied = self._found(args[0]) if name in _COPIES and args and isinstance(args[0], torch.Tensor) else None
        said, place = copied or (_call(func, args, kwargs), place_here() or Place())
        for storage in storages:
            self._known[storage_key(storage)] = weakref.ref(storage), said, place

    def rows(self, numbers: Iterable[int], tensors: Iterable[torch.Tensor], *, exact: bool = False) -> list[list[Any]]:
        """Return what is known of tensors that are there as the first step begins, as it is stored.

        exact: whether nobody asks for their precision.
        """
        found: list[list[Any]] = []
        if exact and not self._known:
            return found
        with no_torch_function(), no_torch_dispatch(), torch.no_grad():  # no mode of the program sees us read
            for number, tensor in dict(zip(numbers, tensors, strict=True)).items():
                (call, place), coarse = self._found(tensor) or ("", Place()), "" if exact else rounded(tensor)
                if place or coarse:
                    found.append([number, [place.file, place.line, place.function, place.text], call, coarse])
        return found

    def _found(self, tensor: torch.Tensor) -> tuple[str, Place] | None:
        storage = _storage(tensor)
        known = self._known.get(storage_key(storage)) if storage is not None else None
        return known[1:] if known is not None and known[0]() is storage else None

    def _has_room(self) -> bool:
        if len(self._known) >= _MOST and not self._full:
            self._known = {key: each for key, each in self._known.items() if each[0]() is not None}
            self._full = len(self._known) > _MOST // 2  # else it would be looked through again and again
        return not self._full


def rounded(tensor: torch.Tensor) -> str:
    """Return the coarser dtype that the elements of a float32 tensor fit, as far as a sample tells; "" if none."""
    if tensor.dtype != torch.float32 or tensor.numel() < _DISTINCT or not readable(tensor):
        return ""
    if not tensor.is_contiguous():
        return ""
    plain = tensor.detach()
    step = max(1, plain.numel() // _SAMPLE)
    held = plain.as_strided((plain.numel() // step,), (step,), plain.storage_offset()).clone().numpy()
    with np.errstate(all="ignore"):
        found = next((name for name, fits in _COARSE.items() if fits(held)), "")
    return found if found and np.unique(held).size >= _DISTINCT else ""


def _storage(tensor: torch.Tensor) -> Any:
    try:
        return tensor.untyped_storage() if tensor.layout == torch.strided else None
    except (RuntimeError, NotImplementedError):  # without memory of its own
        return None


def _call(func: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
    given, _ = taken_apart(func, tuple(args), kwargs)
    if func is FRESH:
        return "torch.tensor()"
    numbers = [f"{each:.6g}" for each in given.values() if type(each) in (int, float)]
    return f"{func.overloadpacket.__name__ if hasattr(func, 'overloadpacket') else func}({', '.join(numbers[:3])})"
