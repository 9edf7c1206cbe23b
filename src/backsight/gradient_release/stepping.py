"""Steps inside of the backward pass: what happens when gradients come, and when the optimizer's own step does.

Of one step: slots put gradients into the bucket (`arrival`); a full bucket is stepped and its gradients are replaced by
placeholders (`flush`); the optimizer's step takes the placeholders away, steps what is left, and puts them back.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from backsight.gradient_release._torch import (
    at_end_of_backward,
    hook_first_after_step,
    hook_last_before_step,
    is_last_hook,
)
from backsight.gradient_release.accumulation import MomentumAccumulation
from backsight.gradient_release.arrival import HELD, STEPPED, Book, Slot
from backsight.gradient_release.attached import Attached
from backsight.gradient_release.data_parallel import GroupAverage, OverDdp
from backsight.gradient_release.errors import AlreadyStepped, NotReleasable, ReleaseError, ReleaseWarning
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.first_look import look
from backsight.gradient_release.midstep import MidStep, listed
from backsight.gradient_release.norms import Kept, Norms
from backsight.gradient_release.partial_step import PartialStep
from backsight.gradient_release.placeholder import Placeholder, leave_placeholder
from backsight.gradient_release.scaler import refuse_undeclared
from backsight.tape import in_backward

if TYPE_CHECKING:
    from backsight.gradient_release.clipping import Clipping


class Stepping(Attached):
    """What a `Release` does; see there for what it is to people."""

    def __init__(self, optimizer: torch.optim.Optimizer, bucket: float, evidence: Evidence):
        super().__init__()
        self.optimizer = optimizer
        self.bucket = bucket
        self.evidence = evidence
        self.peak_gradient_bytes = 0
        self._clipping: Clipping | None = None
        self._partial = PartialStep(optimizer, evidence.layout)
        self._book = Book(bucket, self)
        self._norms, self._last_norms = Norms(), Norms()
        self._small: list[Kept] = self._last_norms.small
        """While nothing is attached to, the gradients of the last step."""
        self._momentum: MomentumAccumulation | None = None
        self._midstep = MidStep()
        self._withdrawn: list[tuple[Slot, torch.Tensor]] = []
        self._lock = threading.RLock()
        self._looked = False
        self._ddp: OverDdp | None = None
        self._group: GroupAverage | None = None
        self._removed = False
        self._handles.append(optimizer.register_step_pre_hook(self._before))
        weakref.finalize(self, _close, weakref.ref(self._book))
        self._survey()

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
            elif gradient.requires_grad:
                slot.state, book.kept = HELD, book.kept + slot.bytes
            else:
                ready.append((slot, each, gradient))
        if ready:
            self._step(ready)

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
            slot.version = each._version
            leave_placeholder(slot, each, gradient, norms.get(slot.key))
            self._book.stepped.append((slot, each))

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

    # What the optimizer calls.

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Take the placeholders away, so that the optimizer's own step sees what is left."""
        if kwargs or len(args) > 1:
            closure = next((each for each in (*args[1:], *kwargs.values()) if callable(each)), None)
            if closure is not None:
                return self._expect(closure, args, kwargs)
        self._prepare()
        return None

    def _prepare(self) -> None:
        if not self._slots:
            self._before_unattached()
            return
        if self._clipping is not None:
            self._clipping.before_step()
        if self._book.stepped or self._book.zeroed:
            self._withdraw()
        if self._group is not None and not self._book.idle:
            self._group.average([each for each in self._parameters() if each.grad is not None])
        if not self._book.idle:
            self._see_peak()
            self._take_norms()

    def _before_unattached(self) -> None:
        """Keep the few small gradients that there are; this is all that a small model pays for."""
        groups = self.optimizer.param_groups
        small = [(p, g, g._version) for group in groups for p in group["params"] if (g := p.grad) is not None]
        earlier, self._small = self._small, small
        if len(small) != len(earlier):
            self.peak_gradient_bytes = max(self.peak_gradient_bytes, sum(gradient.nbytes for _, gradient, _ in small))
            self._survey()
        elif small and small[0][1] is earlier[0][1]:
            self._attach()  # this loop zeroes gradients in place: their norms have to be taken in time
        if self._slots:  # from now on no gradient is kept, and there may be large ones
            last = self._last()
            last.each()
            self._small = last.small = []

    def _last(self) -> Norms:
        """Return the norms of the last step."""
        if self._last_norms.small is not self._small:
            self._last_norms = Norms(self._small)
        return self._last_norms

    def _withdraw(self) -> None:
        """Take the placeholders out of `grad`, and put zeros there for those that were zeroed."""
        if not self._withdrawn:  # else a step failed, or is that of a class that calls its base's
            self._midstep.check(self._book, self.optimizer.param_groups, self.name_of)
            self._withdrawn = [each for each in self._book.stepped if each[1].grad is not None]
            for _, parameter in self._withdrawn:
                parameter.grad = None
        for slot in self._book.zeroed:
            zeroed = self.parameter_of(slot)
            done = slot.state == STEPPED and slot.number == self._book.number
            if zeroed is not None and zeroed.grad is None and not done:
                zeroed.grad = torch.zeros_like(zeroed)

    def _after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """End the step: everything is as the ordinary loop leaves it, but for placeholders until `zero_grad`."""
        book = self._book
        if book.idle:
            self._take_norms()  # those of the closure
        if self._clipping is not None:
            self._clipping.after_step()
        self._partial.finish()
        for slot, parameter in self._withdrawn:
            if parameter.grad is None:
                parameter.grad = slot.placeholder
        self._withdrawn.clear()
        self._norms.absorbed = book.absorbed
        if not self._norms.empty():  # else this is the step of a class that calls its base's, which had hooks as well
            self._last_norms, self._norms = self._norms, Norms()
            self._small = self._last_norms.small
        book.turn()
        if self._group is not None:
            self._group.turn()
        hook_last_before_step(optimizer, self._handles[0])
        if self._changed():
            self._survey()

    def _storing(self, optimizer: torch.optim.Optimizer) -> None:
        """Say that a state is stored which belongs to no step."""
        if self._book.stepped:
            warnings.warn(
                f"state_dict() in the middle of a step: {listed(self.stepped)} have taken it inside of backward, and "
                "the others have not. Store model and optimizer after optimizer.step().",
                ReleaseWarning,
                stacklevel=3,
            )

    def _loaded(self, optimizer: torch.optim.Optimizer) -> None:
        """Another state was loaded: forget the step under way."""
        for _, parameter in self._book.stepped:
            parameter.grad = None
        self._withdrawn.clear()
        self._partial.abandon()
        self._norms = Norms()
        self._book.turn()

    def _expect(self, closure: Callable[[], Any], args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Have a backward within `optimizer.step(closure)` be released, and what it leaves be stepped after it."""
        if self._clipping is not None and not self._partial.trusted:
            raise ReleaseError(
                f"release.clip() has no part in {type(self.optimizer).__name__}.step(closure), which may call its "
                "closure several times: clip inside of the closure."
            )
        if self._book.stepped:
            raise AlreadyStepped(
                f"optimizer.step(closure) runs a backward of its own, and {listed(self.stepped)} took this step "
                "in the one before it. Call the closure only, or backward and step() without it."
            )
        if not self._partial.trusted:
            self._book.idle = True  # it may call its closure at any time, and several times
            return None

        def evaluated() -> Any:
            loss = closure()
            with torch.no_grad():  # closures are called with gradients on
                self._prepare()
            return loss

        given = [evaluated if each is closure else each for each in args]
        return tuple(given), {key: evaluated if each is closure else each for key, each in kwargs.items()}

    def _take_norms(self) -> None:
        """Take the norms of the gradients that are left to the optimizer's own step."""
        left = {id(each): each.grad for each in self._parameters() if each.grad is not None}
        again = [key for key, gradient in left.items() if type(gradient) is Placeholder]
        if again:
            raise AlreadyStepped(
                f"optimizer.step() came a second time for the same gradient of {self._name(again[0])}, which was used "
                "for the step before, and freed. Call zero_grad() after each optimizer.step()."
            )
        if self._clipping is not None:
            self._clipping.scale([each for each in self._parameters() if each.grad is not None])
        elif left:
            self._norms.take(list(left), [gradient for gradient in left.values() if gradient is not None])

    def _few_are_enough(self) -> bool:
        return self._partial.trusted

    def _hook_the_step(self) -> list[Any]:
        self._last()
        after = self.optimizer.register_step_post_hook(self._after)
        hook_first_after_step(self.optimizer, after)  # a hook of the user may call zero_grad()
        return [
            after,
            self.optimizer.register_load_state_dict_post_hook(self._loaded),
            self.optimizer.register_state_dict_pre_hook(self._storing),
        ]

    def _see_peak(self) -> None:
        alive = self._book.bytes + self._book.kept if self._slots else self._bytes
        if alive > self.peak_gradient_bytes:
            self.peak_gradient_bytes = alive


def _close(book: weakref.ref[Book]) -> None:
    """Have the hooks of a release that is gone hold no parameter."""
    left = book()
    if left is not None:
        left.close()
