"""Steps inside of the backward pass: what happens when gradients come.

Slots put gradients into the bucket (`arrival`); a full bucket is stepped and its gradients are replaced by placeholders
(`flush`). What is left is for the optimizer's own step (`own_step`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from backsight.gradient_release._torch import at_end_of_backward, hook_last_before_step, is_last_hook
from backsight.gradient_release.accumulation import MomentumAccumulation
from backsight.gradient_release.ahead import end, may_be_ahead
from backsight.gradient_release.arrival import HELD, STEPPED, Book, Slot
from backsight.gradient_release.attached import Attached
from backsight.gradient_release.data_parallel import GroupAverage, OverDdp
from backsight.gradient_release.errors import NotReleasable
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.first_look import look, warn_of_waiting
from backsight.gradient_release.midstep import MidStep
from backsight.gradient_release.norms import Norms
from backsight.gradient_release.partial_step import PartialStep
from backsight.gradient_release.placeholder import leave_placeholder
from backsight.gradient_release.remedy import listed
from backsight.gradient_release.scaler import refuse_undeclared
from backsight.tape import backward_number, in_backward

if TYPE_CHECKING:
    from backsight.gradient_release.clipping import Clipping


class Stepping(Attached):
    """What a `Release` does inside of the backward pass; see there for what it is to people."""

    def __init__(self, optimizer: torch.optim.Optimizer, bucket: float, evidence: Evidence):
        super().__init__()
        self.optimizer = optimizer
        self.bucket = bucket
        self.evidence = evidence
        self.peak_gradient_bytes = 0
        self._clipping: Clipping | None = None
        self._partial = PartialStep(optimizer, evidence.layout)
        self._book = Book(bucket, self)
        self._norms = Norms()
        self._momentum: MomentumAccumulation | None = None
        self._midstep = MidStep(self._book)
        self._lock = threading.RLock()
        self._waiting: dict[int, int] = {}
        """Bytes of the gradients of parameters whose memory others share, by the `id` of the parameter."""
        self._looked = not evidence.optimizer  # the copies of a probe are in no compiled model, and no scaler's
        self._ddp: OverDdp | None = None
        self._group: GroupAverage | None = None
        self._removed = False
        weakref.finalize(self, _close, weakref.ref(self._book))

    @property
    def stepped(self) -> tuple[str, ...]:
        """The names of the parameters that have already taken the step under way."""
        return tuple(self.name_of(slot) for slot, _ in self._book.stepped)

    @property
    def clipping(self) -> Clipping | None:
        """How gradients are clipped, or None; `print(release.clipping)` tells what is kept as factors, and why not."""
        return self._clipping

    @property
    def accumulating(self) -> bool:
        """Whether gradients are kept: those of earlier micro-batches."""
        return self._book.holding

    def clipping_with(self, clipping: Clipping | None) -> None:
        """Have gradients be kept, scaled and measured by `clipping` from now on."""
        if clipping is not None and (self._ddp is not None or self._group is not None):
            raise NotReleasable(
                "release.clip() finds the norm of gradients before they are averaged over the ranks, which is another. "
                "Clip under fully_shard (FSDP2), or run backward within `with release.accumulate():` and call "
                "clip_grad_norm_ as ever (under ddp=; that step has all gradients alive)."
            )
        self._clipping = clipping
        self._book.filter = None if clipping is None else clipping.holds
        if clipping is not None:
            self._attach()

    def flush(self, last: Slot, parameter: torch.Tensor) -> None:
        """Step what is in the bucket, and free its gradients."""
        with self._lock:
            self._look()
            book = self._book
            if not book.stepped:
                self._begin()
            self._see_peak()
            arrived, book.pending, book.bytes = book.pending, [], 0
            seen = is_last_hook(parameter, last.arrive)
            self._use(self._staying(arrived, None if seen else last))  # others may have yet to see its gradient

    def averaging_by(self, ddp: Any = None, group: GroupAverage | None = None) -> None:
        """Have gradients be averaged over ranks before they are used: by a DDP, or over a process group."""
        self._ddp = None if ddp is None else OverDdp(self, ddp)
        self._group = group
        self._attach()

    def step_averaged(self, averaged: set[int]) -> list[Slot]:
        """Step those of the gradients in the bucket that DDP has averaged; return whose placeholders are new."""
        book = self._book
        if book.idle or book.holding:
            return []
        self._look()
        if not book.stepped:
            self._begin()
        arrived = [(slot, each) for slot, each in book.pending if slot.key in averaged]
        book.pending = [(slot, each) for slot, each in book.pending if slot.key not in averaged]
        self._use(self._staying(arrived, None))
        return [slot for slot, _ in arrived if slot.state == STEPPED]

    def leave_out(self, keys: set[int]) -> None:
        """Do not count the bytes of these gradients, which are in DDP's buckets."""
        self._book.bytes = sum(slot.bytes for slot, _ in self._book.pending if slot.key not in keys)

    def _look(self) -> None:
        """Look once at what can only be seen when a backward pass runs."""
        if not self._looked:
            look(list(self._parameters()), self.bucket, None if self._ddp is None else self._ddp.model())
            refuse_undeclared(self)
            self._looked = True

    def _begin(self) -> None:
        """Prepare for the first partial steps of a step."""
        if self._changed():
            self._survey()
        if in_backward():  # else clipping calls, from our hook, and the table of hooks is being gone through
            hook_last_before_step(self.optimizer, self._handles[0])
            self._book.passing = True
            at_end_of_backward(self._book.passed)

    def _use(self, arrived: list[tuple[Slot, torch.Tensor]]) -> None:
        """Step the parameters of gradients that have arrived, but for gradients that are part of a graph."""
        book = self._book
        ready: list[tuple[Slot, torch.Tensor, torch.Tensor]] = []
        for slot, each in arrived:
            gradient = each.grad
            if gradient is None or slot.key not in self._slots:
                slot.number = -1  # taken away since it arrived, or taken out of its group
            elif gradient.requires_grad or not may_be_ahead(each):
                slot.state, book.kept = HELD, book.kept + slot.bytes
                if not gradient.requires_grad and slot.key not in self._waiting:
                    self._wait(slot)
            else:
                ready.append((slot, each, gradient))
        if ready:
            self._step(ready)

    def _wait(self, slot: Slot) -> None:
        """Note that the gradient of a parameter waits, and say so once, if that is more than a bucket."""
        before = sum(self._waiting.values())
        self._waiting[slot.key] = slot.bytes
        if before <= self.bucket < before + slot.bytes:
            warn_of_waiting(listed(tuple(map(self._name, self._waiting))))

    def arrived(self, parameter: torch.Tensor) -> None:
        """Take a gradient that clipping has kept until now."""
        book = self._book
        filtered, book.filter = book.filter, None
        try:
            if id(parameter) in self._slots:
                with torch.no_grad():
                    self._slots[id(parameter)][0].arrive(parameter)
        finally:
            book.filter = filtered

    def absorb(self, slot: Slot, parameter: torch.Tensor) -> bool:
        """Take up a gradient of an earlier micro-batch; return whether it was, and is not to be kept."""
        if self._momentum is None:
            return False
        group = next(g for g in self.optimizer.param_groups if any(each is parameter for each in g["params"]))
        if not self._momentum.take(parameter, group):
            return False
        self.peak_gradient_bytes = max(self.peak_gradient_bytes, self._book.kept + slot.bytes)
        parameter.grad = None
        return True

    def _step(self, ready: list[tuple[Slot, torch.Tensor, torch.Tensor]]) -> None:
        """Step parameters, and leave placeholders in the place of their gradients."""
        parameters = [each for _, each, _ in ready]
        if self._group is not None:
            self._group.average(parameters)
        norms: dict[int, torch.Tensor]
        if self._clipping is None:
            norms = self._norms.take([slot.key for slot, _, _ in ready], [gradient for _, _, gradient in ready])
        else:
            self._clipping.scale(parameters)
            norms = self._clipping.norms
        try:
            self._partial.step(parameters)
        except BaseException:
            self._book.pending += [(slot, each) for slot, each, _ in ready]
            raise
        if not (self._book.stepped and self._partial.trusted):  # others are put back, which counts as a change
            self._midstep.note(self.optimizer.param_groups)
        for slot, each, gradient in ready:
            slot.state = STEPPED
            leave_placeholder(slot, each, gradient, norms.get(slot.key))
            self._book.stepped.append((slot, each))
            self._midstep.begin(slot, each)
        self._book.backward = backward_number()

    def _staying(self, arrived: list[tuple[Slot, torch.Tensor]], last: Slot | None) -> list[tuple[Slot, torch.Tensor]]:
        """Put back what has to stay in the bucket, and return the rest."""
        staying: set[int] = set()
        if last is not None:
            staying.add(last.key)
        if not self._partial.trusted:
            # Many optimizers count a step, or look at what they were given, only where a group has a gradient: the
            # smallest one of each group is left to `optimizer.step()`.
            staying.update(self._smallest(arrived))
        if not staying:
            return arrived
        book = self._book
        for slot, each in arrived:
            if slot.key in staying:
                book.pending.append((slot, each))
                book.bytes += slot.bytes
        return [(slot, each) for slot, each in arrived if slot.key not in staying]

    def _smallest(self, arrived: list[tuple[Slot, torch.Tensor]]) -> Iterator[int]:
        bytes_of = {slot.key: slot.bytes for slot, _ in arrived}
        for group in self.optimizer.param_groups:
            here = [id(each) for each in group["params"] if id(each) in bytes_of]
            if here:
                yield min(here, key=bytes_of.__getitem__)

    def _see_peak(self) -> None:
        alive = self._book.bytes + self._book.kept if self._slots else self._bytes
        if alive > self.peak_gradient_bytes:
            self.peak_gradient_bytes = alive


def _close(book: weakref.ref[Book]) -> None:
    """Have the hooks of a release that is gone hold no parameter."""
    left = book()
    if left is not None:
        for _, parameter in left.stepped:
            end(parameter)
        left.close()
