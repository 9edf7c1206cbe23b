"""What has arrived in the step under way, and what became of it.

The hooks on parameters, which PyTorch keeps in a table of its own that no collector sees, lead here: so a ledger holds
no optimizer, and knows who empties its bucket only weakly.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from backsight.gradient_release.arrival import Slot

Entry = tuple["Slot", torch.Tensor]
"""A parameter with its slot."""


class Flusher(Protocol):
    """Who empties the bucket."""

    def flush(self, last: Slot, parameter: torch.Tensor) -> None:
        """Step what is in the bucket; the gradient that has just arrived is that of `parameter`."""

    def name_of(self, slot: Slot) -> str:
        """Return what the program calls the parameter of a slot."""

    def parameter_of(self, slot: Slot) -> torch.Tensor | None:
        """Return the parameter of a slot, if the optimizer still holds it."""

    def absorb(self, slot: Slot, parameter: torch.Tensor) -> bool:
        """Take up a gradient of an earlier micro-batch; return whether it was, and is not to be kept."""


class Ledger:
    """The gradients of the step under way.

    Attributes:
        bucket: bytes at which what is pending is stepped.
        number: of the step; a slot that has another number has not been called in this step.
        idle: whether gradients are left alone, because `optimizer.step(closure)` runs or release was removed.
        filter: tells which gradients are taken care of elsewhere (clipping).
        holding: whether gradients are kept: those of earlier micro-batches.
        pending: the gradients in the bucket, with their parameters.
        bytes: of the gradients in the bucket.
        kept: bytes of the gradients that are alive and not in the bucket.
        stepped: those whose parameters have already taken this step.
        zeroed: those that take the step with a gradient of zero if no other comes.
        passing: whether a backward pass has stepped parameters and not come to its end: it runs, or was interrupted.
        backward: the number of the backward pass that stepped parameters last.
        thrown_away: whether gradients were taken away since, without a step.
        absorbed: whether gradients of earlier micro-batches went straight into the optimizer's state.
        clipped_late: whether it was said that `clip_grad_norm_` comes too late.
    """

    def __init__(self, bucket: float):
        self.bucket = bucket
        self.number = 0
        self.idle = False
        self.filter: Callable[[torch.Tensor], bool] | None = None
        self.holding = False
        self.pending: list[Entry] = []
        self.bytes = 0
        self.kept = 0
        self.stepped: list[Entry] = []
        self.zeroed: list[Slot] = []
        self.passing = False
        self.backward = -1
        self.thrown_away = False
        self.absorbed = False
        self.clipped_late = False
        self._flusher: weakref.ref[Flusher] | None = None

    @property
    def flusher(self) -> Flusher | None:
        """Who empties the bucket, if it is still there."""
        return None if self._flusher is None else self._flusher()

    def emptied_by(self, flusher: Flusher) -> None:
        """Have the bucket be emptied by `flusher`, who is not kept alive by that."""
        self._flusher = weakref.ref(flusher)

    @property
    def under_way(self) -> bool:
        """Whether a gradient has come in this step."""
        return bool(self.stepped or self.pending or self.kept or self.absorbed)

    def put(self, slot: Slot, parameter: torch.Tensor) -> bool:
        """Put a gradient into the bucket; return whether that is full."""
        self.pending.append((slot, parameter))
        self.bytes += slot.bytes
        return self.bytes >= self.bucket

    def take(self, keys: Collection[int] | None = None) -> list[Entry]:
        """Take the gradients out of the bucket, all, or those of parameters with these `id`."""
        if keys is None:
            taken, self.pending, self.bytes = self.pending, [], 0
            return taken
        taken = [entry for entry in self.pending if entry[0].key in keys]
        self.pending = [entry for entry in self.pending if entry[0].key not in keys]
        return taken

    def leave_out(self, keys: Collection[int]) -> None:
        """Do not count the bytes of these gradients, which are in memory of others."""
        self.bytes = sum(slot.bytes for slot, _ in self.pending if slot.key not in keys)

    def passed(self) -> None:
        """Note that a backward pass has come to its end."""
        self.passing = False

    def turn(self) -> None:
        """Begin the next step."""
        self.number += 1
        self.idle = self.absorbed = self.passing = self.thrown_away = False
        self.bytes = self.kept = 0
        if self.pending:
            self.pending = []
        if self.stepped:
            self.stepped = []
        if self.zeroed:
            self.zeroed = []

    def close(self) -> None:
        """Leave gradients alone from now on, and hold no parameter."""
        self.turn()
        self.idle = True
