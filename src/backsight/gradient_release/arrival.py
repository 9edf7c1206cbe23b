"""Gradients as they arrive in a backward pass: one `Slot` for each parameter, one `Book` for all of them.

A slot is called for every gradient of every step, so it does next to nothing. PyTorch keeps it in a table of the
parameter; so it holds neither the parameter nor the optimizer, and the book knows its release only weakly.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

import torch

from backsight.gradient_release._torch import bytes_of
from backsight.gradient_release.errors import AlreadyStepped
from backsight.gradient_release.placeholder import Placeholder
from backsight.gradient_release.remedy import second_gradient

PENDING, HELD, WAITING, STEPPED = range(4)
"""What became of a gradient: in the bucket; kept for `optimizer.step()`; part of a sum; used for a step, and freed."""


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


class Book:
    """What has arrived in the step under way.

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
    """

    def __init__(self, bucket: float, flusher: Flusher):
        self.bucket = bucket
        self.number = 0
        self.idle = False
        self.filter: Callable[[torch.Tensor], bool] | None = None
        self.holding = False
        self.pending: list[tuple[Slot, torch.Tensor]] = []
        self.bytes = 0
        self.kept = 0
        self.stepped: list[tuple[Slot, torch.Tensor]] = []
        self.passing = False
        self.backward = -1
        self.thrown_away = False
        self.absorbed = False
        self.zeroed: list[Slot] = []
        self.flusher = weakref.ref(flusher)

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

    def passed(self) -> None:
        """Note that a backward pass has come to its end."""
        self.passing = False

    def close(self) -> None:
        """Leave gradients alone from now on, and hold no parameter: their hooks hold this book."""
        self.turn()
        self.idle = True


class Slot:
    """One parameter's place in the book, called by PyTorch when a gradient has been accumulated."""

    __slots__ = ("address", "book", "bytes", "key", "number", "placeholder", "state", "version")

    def __init__(self, book: Book, parameter: torch.Tensor):
        self.book = book
        self.key = id(parameter)
        self.bytes = bytes_of(parameter)
        self.number = -1
        self.state = PENDING
        self.placeholder: Placeholder | None = None
        self.version = self.address = 0

    def arrive(self, parameter: torch.Tensor) -> None:
        """Note that this parameter's gradient has been accumulated: the hook."""
        book = self.book
        if book.idle or (book.filter is not None and book.filter(parameter)):
            return
        if self.number == book.number:
            self._again(parameter)
            return
        self.number = book.number
        # Grad mode is on in a backward with create_graph=True: the gradient is part of a graph that somebody will use.
        if book.holding or torch.is_grad_enabled():
            self._hold(parameter)
            return
        self.state = PENDING
        book.pending.append((self, parameter))
        book.bytes += self.bytes
        if book.bytes >= book.bucket:
            self._full(parameter)

    def name(self) -> str:
        """Return what the program calls the parameter."""
        flusher = self.book.flusher()
        return "a parameter" if flusher is None else flusher.name_of(self)

    def second_gradient(self) -> str:
        """Say that this parameter gets a second gradient after it was stepped with the first."""
        return second_gradient(self)

    def zero(self) -> None:
        """Take the placeholder away; should no gradient follow, the next step finds zeros, as it would without us."""
        flusher = self.book.flusher()
        parameter = None if flusher is None else flusher.parameter_of(self)
        if parameter is not None and parameter.grad is self.placeholder:
            parameter.grad = None
            self.book.zeroed.append(self)

    def _full(self, parameter: torch.Tensor) -> None:
        flusher = self.book.flusher()
        if flusher is not None:
            flusher.flush(self, parameter)

    def _hold(self, parameter: torch.Tensor) -> None:
        book = self.book
        graph = torch.is_grad_enabled()
        self.state = HELD if graph else WAITING
        flusher = book.flusher()
        if not graph and flusher is not None and flusher.absorb(self, parameter):
            self.number = -1
            book.absorbed = True
            book.zeroed.append(self)
        else:
            book.kept += self.bytes

    def _again(self, parameter: torch.Tensor) -> None:
        """A further gradient in one step; PyTorch has added it to those that are still there."""
        book = self.book
        if self.state == STEPPED:
            raise AlreadyStepped(self.second_gradient())
        if self.state == WAITING and not book.holding and not torch.is_grad_enabled():
            self.state = PENDING
            book.kept -= self.bytes
            book.pending.append((self, parameter))
            book.bytes += self.bytes
            if book.bytes >= book.bucket:
                self._full(parameter)
