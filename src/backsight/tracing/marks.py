"""Whether tensors of a device are finite, asked for now and answered later, so that nobody waits at each of them.

A mark is the largest magnitude of a tensor: NaN where a value is NaN, infinite where one is infinite. It is one small
operation in the device's queue, and stays there until all marks are fetched together.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import torch

from backsight.tape import Living, is_captured, is_warming_up
from backsight.tracing._torch import in_transform, is_traced
from backsight.tracing.changes import version

MOST = 4096
"""Marks that wait on the device; then they are fetched."""

FINITE, NAN, INF = 0, 1, 2

Mark = int
"""The place of an answer that is on its way; negative for one that is known: -1 - state."""

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def known(state: int) -> Mark:
    """Return the mark of what is known already."""
    return -1 - state


def is_near(tensor: torch.Tensor) -> bool:
    """Whether a value of the tensor can be read without waiting for a device."""
    return tensor.device.type == "cpu"


def can_mark(tensor: torch.Tensor) -> bool:
    """Whether a far tensor has values that can be asked for here."""
    return (
        any(type(tensor) is kind for kind in _PLAIN)
        and tensor.numel() > 0
        and not tensor.is_meta
        and not (is_traced() or in_transform() or is_captured() or is_warming_up())
    )


class Marks:
    """Numbers that devices have been asked for."""

    def __init__(self) -> None:
        self._waiting: list[torch.Tensor] = []
        self._streams: dict[torch.device, set[Any]] = {}
        self._of: Living[tuple[int, Mark]] = Living()  # with the version that was asked about
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def of(self, tensor: torch.Tensor) -> Mark:
        """Ask whether a far tensor is finite; the same tensor at the same version is asked about once."""
        held = self._of.of(tensor)
        if held is not None and held[0] == version(tensor):
            return held[1]
        if not can_mark(tensor):
            return known(FINITE)
        mark = self.ask(_largest(tensor.detach()))
        self._of.put(id(tensor), tensor, (version(tensor), mark))
        return mark

    def before(self, tensor: torch.Tensor) -> Mark:
        """Return what was last asked of a tensor, which may have been modified since; finite if nothing was."""
        held = self._of.of(tensor)
        return held[1] if held is not None else known(FINITE)

    def ask(self, number: torch.Tensor) -> Mark:
        """Have one number of a device fetched with the others."""
        if number.is_cuda:
            stream = torch.cuda.current_stream(number.device)
            self._streams.setdefault(number.device, set()).add(stream)
        with self._lock:
            self._waiting.append(number)
            return len(self._waiting) - 1

    def fetched(self) -> list[float]:
        """Wait for all numbers, once for each device, and return them in order; marks begin anew at 0."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            streams, self._streams = self._streams, {}
        found = [0.0] * len(waiting)
        places: dict[torch.device, list[int]] = {}
        for place, number in enumerate(waiting):
            places.setdefault(number.device, []).append(place)
        for device, at in places.items():
            for place, value in zip(at, _brought([waiting[k] for k in at], streams.get(device, ())), strict=True):
                found[place] = value
        for key, (at_version, mark) in self._of.items():
            if (tensor := self._of.held(key)) is not None:
                self._of.put(key, tensor, (at_version, known(state_of(mark, found))))
        return found


def state_of(mark: Mark, numbers: list[float]) -> int:
    """Return whether what was marked is finite."""
    if mark < 0:
        return -1 - mark
    return NAN if math.isnan(numbers[mark]) else INF if math.isinf(numbers[mark]) else FINITE


def _largest(plain: torch.Tensor) -> torch.Tensor:
    largest = plain.abs().amax() if plain.is_complex() else torch.linalg.vector_norm(plain, math.inf)
    return largest.double()


def _brought(numbers: list[torch.Tensor], streams: Any) -> list[float]:
    """Bring numbers of one device over by one copy, behind all that was queued on these streams."""
    device = numbers[0].device
    if device.type != "cuda":
        return [float(value) for value in torch.stack([each.double() for each in numbers]).tolist()]
    here = torch.cuda.current_stream(device)
    for stream in streams:
        here.wait_stream(stream)
    far = torch.stack([each.double() for each in numbers])
    near = torch.empty(far.shape, dtype=far.dtype, pin_memory=True).copy_(far, non_blocking=True)
    here.record_event().synchronize()
    return [float(value) for value in near.tolist()]
