"""`Release`: what `release` returns, the one object that a training script holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from backsight.gradient_release._torch import drop_empty_hooks, in_backward, is_last_hook
from backsight.gradient_release.accumulation import MomentumAccumulation
from backsight.gradient_release.arrival import HELD, STEPPED, WAITING, Book, Slot
from backsight.gradient_release.bucket import told
from backsight.gradient_release.errors import AlreadyStepped, GradientGone, ReleaseError
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.first_look import look
from backsight.gradient_release.names import parameter_names
from backsight.gradient_release.norms import SMALL, Norms, total_norm
from backsight.gradient_release.partial_step import PartialStep
from backsight.gradient_release.placeholder import Placeholder


class Release:
    """Steps an optimizer inside of the backward pass, a bucket at a time, until it is removed; made by `release`.

    An exception inside of a backward pass leaves the parameters named by `stepped` with this step taken, and the others
    without. Either load the last checkpoint into model and optimizer, or end the step as it is:
    `optimizer.zero_grad(); optimizer.step()`.

    Attributes:
        optimizer: the optimizer, which stays an ordinary one.
        bucket: bytes of gradients at which they are used and freed.
        evidence: why the steps are taken to be exact.
        peak_gradient_bytes: the most bytes of its parameters' gradients that were alive at once, of any step so far.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, bucket: float, evidence: Evidence, ddp: Any = None):
        self.optimizer = optimizer
        self.bucket = bucket
        self.evidence = evidence
        self.peak_gradient_bytes = 0
        self._ddp = ddp
        self._partial = PartialStep(optimizer, evidence.layout)
        self._book = Book(bucket, self)
        self._norms, self._last_norms = Norms(), Norms()
        self._read_at_once = not self._partial.trusted
        self._momentum: MomentumAccumulation | None = None
        self._lock = threading.RLock()
        self._looked = False
        self._removed = False
        self._slots: dict[int, tuple[Slot, Any]] = {}
        self._without_gradient: list[torch.Tensor] = []
        self._sizes: list[int] = []
        self._names: dict[int, str] = {}
        self._survey()
        self._handles = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
            optimizer.register_load_state_dict_post_hook(self._loaded),
        ]

    @property
    def stepped(self) -> tuple[str, ...]:
        """The names of the parameters that have already taken the step under way."""
        return tuple(self.name_of(slot) for slot, _ in self._book.stepped)

    def remove(self) -> None:
        """Give the plain training loop back; state, schedulers and weights are what they would be without release.

        Raises:
            ReleaseError: in the middle of a step, when some of the parameters have taken it and others have not.
        """
        if self._book.stepped:
            raise ReleaseError(
                f"remove() in the middle of a step: {_listed(self.stepped)} took it inside of the backward pass, and "
                "the others did not. Call optimizer.step() first."
            )
        self._removed = self._book.idle = True
        for handle in self._handles:
            handle.remove()
        slots, self._slots = self._slots, {}
        for _, handle in slots.values():
            handle.remove()
        for parameter in self._parameters():
            if not in_backward():
                drop_empty_hooks(parameter)
            if type(parameter.grad) is Placeholder:
                parameter.grad = None

    @contextmanager
    def accumulate(self, into: Literal["momentum"] | None = None) -> Iterator[None]:
        """Within this, gradients are kept and nothing is stepped: for all micro-batches of a step but the last.

        ```python
        with release.accumulate():
            loss(first_half).backward()
        loss(second_half).backward()     # steps, with the sum of both
        optimizer.step()
        ```

        This is exact, and the gradients of all parameters are alive until the last backward frees them.

        Args:
            into: "momentum" adds the gradients to the momentum of SGD at once, for which no memory is needed; equal up
                to rounding. In the first step, which has no momentum yet, fused or dampened SGD keeps them after all.

        Raises:
            NotReleasable: if the optimizer has no momentum to which gradients can be added.
        """
        if into not in (None, "momentum"):
            raise ValueError(f"accumulate(into={into!r}): it is 'momentum', or left out.")
        before = self._book.holding, self._momentum
        self._momentum = MomentumAccumulation(self.optimizer) if into else None
        self._book.holding = True
        try:
            yield
        finally:
            self._book.holding, self._momentum = before

    def grad_norm(self) -> torch.Tensor:
        """Return the 2-norm of all gradients of a step, which is what `clip_grad_norm_` returns.

        Between backward and `optimizer.step()` it is that of the step under way, after that of the last one. Where
        gradients are sharded (DTensor), every rank has to call it.

        Raises:
            GradientGone: if the gradients were never there as a whole, or were overwritten before somebody asked.
        """
        return total_norm(list(self._norms_by_key().values()))

    def grad_norms(self) -> dict[str, torch.Tensor]:
        """Return the 2-norm of each parameter's gradient, by the parameter's name; else as `grad_norm`."""
        return {self._name(key): norm for key, norm in self._norms_by_key().items()}

    def __repr__(self) -> str:
        kind = type(self.optimizer).__name__
        if self._removed:
            return f"<Release of {kind}, removed>"
        size = "one at a time" if self.bucket == 0 else f"whenever {told(self.bucket)} of them are there"
        done = f"; {len(self._book.stepped)} have taken the step under way" if self._book.stepped else ""
        return (
            f"<Release of {kind}: backward uses the gradients of {len(self._slots)} parameters for their step, {size}, "
            f"and frees them; optimizer.step() does the rest{done}>"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None  # a copy of the optimizer is a plain one

    # What slots call, inside of the backward pass.

    def flush(self, last: Slot, parameter: torch.Tensor) -> None:
        """Step what is in the bucket, and free its gradients."""
        with self._lock:
            if not self._looked:
                self._looked = True
                look(list(self._parameters()), self.bucket, self._ddp)
            book = self._book
            self._see_peak()
            arrived, book.pending, book.bytes = book.pending, [], 0
            ready: list[tuple[Slot, torch.Tensor, torch.Tensor]] = []
            for slot, each in self._staying(arrived, last, parameter):
                gradient = each.grad
                if gradient is None:
                    slot.number = -1  # taken away since it arrived
                elif gradient.requires_grad:
                    slot.state, book.kept = HELD, book.kept + slot.bytes
                else:
                    ready.append((slot, each, gradient))
            if ready:
                self._step(ready)

    def name_of(self, slot: Slot) -> str:
        """Return what the program calls the parameter of a slot."""
        return self._name(slot.key)

    def parameter_of(self, slot: Slot) -> torch.Tensor | None:
        """Return the parameter of a slot, if the optimizer still holds it."""
        return next((each for each in self._parameters() if id(each) == slot.key), None)

    def arrived(self, parameter: torch.Tensor) -> None:
        """Take a gradient that clipping has kept until now."""
        book = self._book
        filtered, book.filter = book.filter, None
        try:
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
        norms = self._norms.take([slot.key for slot, _, _ in ready], [gradient for _, _, gradient in ready])
        try:
            self._partial.step(parameters)
        except BaseException:
            self._book.pending += [(slot, each) for slot, each, _ in ready]
            raise
        for (slot, each, _), norm in zip(ready, norms, strict=True):
            slot.state = STEPPED
            _leave_placeholder(slot, each, norm)
            self._book.stepped.append((slot, each))

    def _staying(
        self, arrived: list[tuple[Slot, torch.Tensor]], last: Slot, parameter: torch.Tensor
    ) -> list[tuple[Slot, torch.Tensor]]:
        """Put back what has to stay in the bucket, and return the rest."""
        staying: set[int] = set()
        if not is_last_hook(parameter, last.arrive):
            staying.add(last.key)  # others have yet to see its gradient
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

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Take the placeholders away, so that the optimizer's own step sees what is left."""
        book = self._book
        self._see_peak()
        if kwargs or len(args) > 1:
            self._expect_closure(args, kwargs)
        for slot, parameter in book.stepped:
            gradient = parameter.grad
            if gradient is not None and gradient is not slot.placeholder:
                raise AlreadyStepped(
                    f"{self.name_of(slot)} has a new gradient, and was already stepped inside of the backward pass. "
                    "Keep gradients that you mean to change within `with release.accumulate():`."
                )
            parameter.grad = None
        for slot in book.zeroed:
            parameter_of_slot = self.parameter_of(slot)
            if parameter_of_slot is not None and parameter_of_slot.grad is None and slot.state != STEPPED:
                parameter_of_slot.grad = torch.zeros_like(parameter_of_slot)
        if not book.idle:
            self._take_norms()

    def _after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """End the step: everything is as the ordinary loop leaves it, but for placeholders until `zero_grad`."""
        book = self._book
        if book.idle:
            self._take_norms()
        self._partial.finish()
        for slot, parameter in book.stepped:
            if parameter.grad is None:
                parameter.grad = slot.placeholder
        self._norms.whole = not book.absorbed
        self._last_norms, self._norms = self._norms, Norms()
        book.turn()
        if self._changed():
            self._survey()

    def _loaded(self, optimizer: torch.optim.Optimizer) -> None:
        """Another state was loaded: forget the step under way."""
        for _, parameter in self._book.stepped:
            parameter.grad = None
        self._partial.abandon()
        self._norms = Norms()
        self._book.turn()

    def _expect_closure(self, args: Any, kwargs: Any) -> None:
        if not any(callable(each) for each in (*args[1:], *kwargs.values())):
            return
        if self._book.stepped:
            raise AlreadyStepped(
                f"optimizer.step(closure) runs a backward of its own, and {_listed(self.stepped)} took this step "
                "in the one before it. Call the closure only, or backward and step() without it."
            )
        self._book.idle = True

    def _take_norms(self) -> None:
        """Take the norms of the gradients that are left to the optimizer's own step."""
        keys, gradients = [], []
        for parameter in self._parameters():
            gradient = parameter.grad
            if gradient is not None:
                keys.append(id(parameter))
                gradients.append(gradient)
        if not gradients:
            return
        book = self._book
        self._read_at_once = self._read_at_once or self._last_norms.overwritten()
        if self._read_at_once or book.bytes + book.kept > SMALL or sum(each.nbytes for each in gradients) > SMALL:
            self._norms.take(keys, gradients)
        else:
            self._norms.keep(keys, gradients)

    def _norms_by_key(self) -> dict[int, torch.Tensor]:
        book = self._book
        if book.stepped or book.pending or book.kept or book.absorbed:
            norms, whole = self._norms, not book.absorbed
            known = norms.each()
            left = [each for each in self._parameters() if each.grad is not None and id(each) not in known]
            taken = dict(known)
            if left:
                from_now = Norms()
                from_now.take([id(each) for each in left], [each.grad for each in left if each.grad is not None])
                taken.update(from_now.each())
        else:
            whole = self._last_norms.whole and not self._last_norms.overwritten()
            taken = self._last_norms.each()
        if not whole:
            raise GradientGone(
                "The norms of this step are not known: its gradients went into the momentum one after another, or were "
                "overwritten in place before somebody asked (from now on they are read before)."
            )
        return {id(each): taken[id(each)] for each in self._parameters() if id(each) in taken}

    def _see_peak(self) -> None:
        alive = self._book.bytes + self._book.kept
        if alive > self.peak_gradient_bytes:
            self.peak_gradient_bytes = alive

    # Parameters.

    def _parameters(self) -> Iterator[torch.Tensor]:
        return (each for group in self.optimizer.param_groups for each in group["params"])

    def _changed(self) -> bool:
        """Whether parameters were added, or unfrozen, since they were looked at."""
        if [len(group["params"]) for group in self.optimizer.param_groups] != self._sizes:
            return True
        return any(each.requires_grad for each in self._without_gradient)

    def _survey(self) -> None:
        """Attach to each parameter that can get a gradient and has not been attached to."""
        self._sizes = [len(group["params"]) for group in self.optimizer.param_groups]
        self._without_gradient = []
        self._names = {}
        for parameter in self._parameters():
            if id(parameter) in self._slots:
                continue
            if not parameter.requires_grad:
                self._without_gradient.append(parameter)
                continue
            slot = Slot(self._book, parameter)
            register: Any = parameter.register_post_accumulate_grad_hook  # which has no types
            self._slots[id(parameter)] = slot, register(slot.arrive)

    def _name(self, key: int) -> str:
        if key not in self._names:
            self._names = parameter_names(self.optimizer)
        return self._names.get(key, "a parameter that the optimizer does not hold any more")


def _leave_placeholder(slot: Slot, parameter: torch.Tensor, norm: torch.Tensor) -> None:
    placeholder = slot.placeholder
    if placeholder is None or placeholder.shape != parameter.shape or placeholder.dtype != parameter.dtype:
        placeholder = slot.placeholder = Placeholder(parameter, slot)
    placeholder.norm_taken = norm
    parameter.grad = placeholder


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
