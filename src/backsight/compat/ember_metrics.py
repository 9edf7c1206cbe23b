"""The user's own functions of a tensor, in place of `get_stats`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from backsight.compat.ember_rows import Row, plain
from backsight.recording.voice import Voice, told

Metric = Callable[[torch.Tensor], Mapping[str, Any]]


class Metrics:
    """A function for each kind of tensor that has one.

    Attributes:
        running: whether one is running: modules that it calls are not part of the training.
    """

    def __init__(self, voice: Voice):
        self.running = False
        self._voice = voice
        self._by_kind: dict[str, Metric] = {}

    def __contains__(self, kind: str) -> bool:
        return kind in self._by_kind

    def put(self, kind: str, metric: Metric) -> None:
        """Apply `metric` to every tensor of this kind from now on."""
        self._by_kind[kind] = metric

    def ask(self, kind: str, tensor: torch.Tensor) -> Row | None:
        """Return what is said of a tensor; None if there is no function for it, or it fails, and is dropped."""
        metric = self._by_kind.get(kind)
        if metric is None:
            return None
        self.running = True
        try:
            with torch.no_grad():
                return plain(metric(tensor.detach()))
        except Exception as failure:  # the user's function, in the middle of the user's training
            self._by_kind.pop(kind, None)
            name = getattr(metric, "__name__", type(metric).__name__)
            self._voice.say(
                f"{kind} {name}", f"the metric {name!r} for {kind!r} failed and is dropped: {told(failure)}"
            )
            return None
        finally:
            self.running = False
