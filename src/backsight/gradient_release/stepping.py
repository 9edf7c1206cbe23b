"""Steps inside of the backward pass: what happens when gradients come.

Slots put gradients into the bucket (`arrival`); a full bucket is stepped and its gradients are replaced by placeholders
(`flush`). What is left is for the optimizer's own step (`own_step`).
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from backsight.gradient_release._torch import at_end_of_backward, is_last_hook
from backsight.gradient_release.ahead import may_be_ahead
from backsight.gradient_release.arrival import HELD, STEPPED, Slot
from backsight.gradient_release.attachments import Attachments
from backsight.gradient_release.attributes import SetSince, attributes
from backsight.gradient_release.data_parallel import Averaging
from backsight.gradient_release.errors import NotReleasable, ReleaseError
from backsight.gradient_release.first_look import look, warn_of_waiting
from backsight.gradient_release.ledger import Entry, Ledger
from backsight.gradient_release.midstep import MidStep, leave_alone
from backsight.gradient_release.norms import SMALL, NormsOfSteps
from backsight.gradient_release.partial_step import PartialStep
from backsight.gradient_release.placeholder import leave_placeholder
from backsight.gradient_release.scaler import refuse_undeclared
from backsight.tape import backward_number, in_backward
from backsight.text import listed

if TYPE_CHECKING:
    from backsight.gradient_release.clipping import Clipping


class Stepping:
    """What a release does inside of the backward pass.

    Args:
        bucket: bytes of gradients that may gather.
        partial: steps a few parameters.
        attachments: to the parameters.
        ledger: what has arrived.
        probing: whether this is a probe's, whose parameters are in no compiled model, and no scaler's.

    Attributes:
        optimizer: whose parameters are stepped.
        midstep: what must stay as it is until the optimizer's own step.
        norms: of gradients, taken before they are freed.
        averaging: over ranks, of gradients that are about to be used.
        clipping: how gradients are clipped; None if they are not.
        peak_gradient_bytes: the most bytes of gradients that were alive at once.
    """

    def __init__(
        self,
        bucket: float,
        partial: PartialStep,
        attachments: Attachments,
        ledger: Ledger,
        *,
        probing: bool = False,
    ):
        self.optimizer = partial.optimizer
        self.partial = partial
        self.attachments = attachments
        self.ledger = ledger
        self.midstep = MidStep(ledger)
        self.norms = NormsOfSteps()
        self.averaging = Averaging()
        self.clipping: Clipping | None = None
        self.peak_gradient_bytes = 0
        self._bucket = bucket
        self._momentum: MomentumAccumulation | None = None
        self._lock = threading.RLock()
        self._waiting: dict[int, int] = {}
        """Bytes of the gradients of parameters whose memory others share, by the `id` of the parameter."""
        self._looked = probing
        self._set_since = None if probing or partial.trusted else SetSince(self.optimizer)
        ledger.emptied_by(self)
        weakref.finalize(self, _close, weakref.ref(ledger))

    @property
    def accumulating(self) -> bool:
        """Whether gradients are kept: those of earlier micro-batches."""
        return self.ledger.holding

    @property
    def stepped(self) -> tuple[str, ...]:
        """The names of the parameters that have already taken the step under way."""
        return tuple(map(self.name_of, (slot for slot, _ in self.ledger.stepped)))

    def name_of(self, slot: Slot) -> str:
        """Return what the program calls the parameter of a slot."""
        return self.attachments.name(slot.key)

    def parameter_of(self, slot: Slot) -> torch.Tensor | None:
        """Return the parameter of a slot, if the optimizer still holds it."""
        return next((each for each in self.attachments.parameters() if id(each) == slot.key), None)

    def attributes(self) -> dict[str, Any]:
        """Return the settings that an optimizer holds beside its groups; of one of PyTorch's there are none."""
        return {} if self.partial.trusted else attributes(self.optimizer)

    def know_attributes(self) -> None:
        """Take the attributes that there are now for the optimizer's own doing."""
        if self._set_since is not None:
            self._set_since.renew()

    def survey(self) -> None:
        """Look at what parameters there are; attach to them, unless all their gradients fit into the bucket anyway."""
        attachments = self.attachments
        attachments.survey()
        if attachments or not self.partial.trusted or attachments.bytes > min(self._bucket, SMALL):
            attachments.attach()

    def clipping_with(self, clipping: Clipping | None) -> None:
        """Have gradients be kept, scaled and measured by `clipping` from now on."""
        if clipping is not None and self.averaging.over_ranks:
            raise NotReleasable(
                "release.clip() finds the norm of gradients before they are averaged over the ranks, which is a "
                "different norm. "
                "Clip under fully_shard (FSDP2), or run backward within `with release.accumulate():` and call "
                "clip_grad_norm_ as usual (under ddp=; that step has all gradients alive)."
            )
        self.clipping = clipping
        self.ledger.filter = None if clipping is None else clipping.holds
        if clipping is not None:
            self.attachments.attach()

    def averaged_by(self, averaging: Averaging) -> None:
        """Have gradients be averaged over ranks before they are used."""
        self.averaging = averaging
        if averaging.has_buckets:
            self.ledger.bucket = math.inf
        self.attachments.attach()

    @contextmanager
    def accumulation(self, into_momentum: bool) -> Iterator[None]:
        """Within this, gradients are kept, or added to the momentum, and nothing is stepped."""
        before = self.ledger.holding, self._momentum
        if into_momentum:
            if self.clipping is not None:
                raise NotReleasable("accumulate(into='momentum') forms no sum whose norm release.clip() could find.")
            self._momentum = MomentumAccumulation(self.optimizer)
            self.attachments.attach()
        self.ledger.holding = True
        try:
            yield
        finally:
            self.ledger.holding, self._momentum = before

    def flush(self, last: Slot, parameter: torch.Tensor) -> None:
        """Step what is in the bucket, and free its gradients."""
        with self._lock:
            self._begin()
            self.see_peak()
            seen = is_last_hook(parameter, last.arrive)
            # Else others may have yet to see its gradient.
            self._use(self._staying(self.ledger.take(), None if seen else last))

    def arrived(self, parameter: torch.Tensor) -> None:
        """Take a gradient that clipping has kept until now."""
        ledger = self.ledger
        filtered, ledger.filter = ledger.filter, None
        try:
            if id(parameter) in self.attachments:
                with torch.no_grad():
                    self.attachments.slot(id(parameter)).arrive(parameter)
        finally:
            ledger.filter = filtered

    def absorb(self, slot: Slot, parameter: torch.Tensor) -> bool:
        """Take up a gradient of an earlier micro-batch; return whether it was, and is not to be kept."""
        if self._momentum is None:
            return False
        group = next(g for g in self.optimizer.param_groups if any(each is parameter for each in g["params"]))
        if not self._momentum.take(parameter, group):
            return False
        self.peak_gradient_bytes = max(self.peak_gradient_bytes, self.ledger.kept + slot.bytes)
        parameter.grad = None
        return True

    def move(self, gradients: dict[int, torch.Tensor]) -> set[int]:
        """Put these in place of gradients in the bucket that are equal to them; return the `id`s of parameters."""
        ledger = self.ledger
        if ledger.idle or ledger.holding:
            return set()
        self.see_peak()
        moved = set()
        for slot, parameter in ledger.pending:
            if slot.key in gradients and parameter.grad is not None and not parameter.grad.requires_grad:
                parameter.grad = gradients[slot.key]
                moved.add(slot.key)
        return moved

    def step_averaged(self, averaged: Collection[int]) -> list[Entry]:
        """Step those of the gradients in the bucket that have been averaged; return whose placeholders are new."""
        if self.ledger.idle or self.ledger.holding:
            return []
        self._begin()
        arrived = self.ledger.take(averaged)
        self._use(self._staying(arrived, None))
        return [entry for entry in arrived if entry[0].state == STEPPED]

    def see_peak(self) -> None:
        """Note how many bytes of gradients are alive."""
        alive = self.ledger.bytes + self.ledger.kept if self.attachments else self.attachments.bytes
        if alive > self.peak_gradient_bytes:
            self.peak_gradient_bytes = alive

    def close(self) -> None:
        """Leave gradients alone from now on.

        Raises:
            ReleaseError: in the middle of a step, when some of the parameters have taken it and others have not.
        """
        if self.ledger.stepped:
            raise ReleaseError(
                f"remove() in the middle of a step: {listed(self.stepped, 3)} took it inside the backward pass "
                "already. Call optimizer.step() first."
            )
        self.ledger.close()
        self.averaging.close()
        if self.clipping is not None:
            self.clipping.close()
        self.attachments.close()

    def _begin(self) -> None:
        """Prepare for the first partial steps of a step; look, once, at what is seen only when a backward pass runs."""
        if not self._looked:
            look(list(self.attachments.parameters()), self._bucket, self.averaging.ddp)
            refuse_undeclared(self)
            self._looked = True
        if self.ledger.stepped:
            return
        if self._set_since is not None:
            self._set_since.tell()
        if self.attachments.changed():
            self.survey()
        if in_backward():  # else clipping calls, from our hook, and the table of hooks is being gone through
            self.attachments.be_last_before_step()
            self.ledger.passing = True
            at_end_of_backward(self.ledger.passed)

    def _use(self, arrived: list[Entry]) -> None:
        """Step the parameters of gradients that have arrived, but for those that have to wait."""
        ready: list[tuple[Slot, torch.Tensor, torch.Tensor]] = []
        during_backward = in_backward()  # else the optimizer's own step begins, and nobody can come between
        for slot, each in arrived:
            gradient = each.grad
            if gradient is None or slot.key not in self.attachments:
                slot.number = -1  # taken away since it arrived, or taken out of its group
            elif gradient.requires_grad or (during_backward and not may_be_ahead(each)):
                slot.state, self.ledger.kept = HELD, self.ledger.kept + slot.bytes
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
        if before <= self._bucket < before + slot.bytes:
            warn_of_waiting(listed([*map(self.attachments.name, self._waiting)], 3))

    def _step(self, ready: list[tuple[Slot, torch.Tensor, torch.Tensor]]) -> None:
        """Step parameters, and leave placeholders in place of their gradients."""
        ledger, parameters = self.ledger, [each for _, each, _ in ready]
        self.averaging.average(parameters)
        norms: dict[int, torch.Tensor]
        if self.clipping is None:
            norms = self.norms.now.take([slot.key for slot, _, _ in ready], [gradient for _, _, gradient in ready])
        else:
            self.clipping.scale(parameters)
            norms = self.clipping.norms
        try:
            self.partial.step(parameters)
        except BaseException:
            ledger.pending += [(slot, each) for slot, each, _ in ready]
            raise
        if not (ledger.stepped and self.partial.trusted):  # others are put back, which counts as a change
            self.midstep.note(self.optimizer.param_groups, self.attributes())
        for slot, each, gradient in ready:
            slot.state = STEPPED
            leave_placeholder(slot, each, gradient, norms.get(slot.key))
            ledger.stepped.append((slot, each))
            self.midstep.begin(slot, each)
        ledger.backward = backward_number()

    def _staying(self, arrived: list[Entry], last: Slot | None) -> list[Entry]:
        """Put back what has to stay in the bucket, and return the rest."""
        staying: set[int] = set()
        if last is not None:
            staying.add(last.key)
        if not self.partial.trusted:
            # Many optimizers count a step, or look at what they were given, only where a group has a gradient: the
            # smallest one of each group is left to `optimizer.step()`.
            staying.update(self._smallest(arrived))
        if not staying:
            return arrived
        for slot, each in arrived:
            if slot.key in staying:
                self.ledger.put(slot, each)
        return [entry for entry in arrived if entry[0].key not in staying]

    def _smallest(self, arrived: list[Entry]) -> Iterator[int]:
        bytes_of = {slot.key: slot.bytes for slot, _ in arrived}
        for group in self.optimizer.param_groups:
            here = [id(each) for each in group["params"] if id(each) in bytes_of]
            if here:
                yield min(here, key=bytes_of.__getitem__)


def _close(ledger: weakref.ref[Ledger]) -> None:
    """Have the hooks of a release that is gone hold no parameter."""
    left = ledger()
    if left is not None:
        leave_alone(left)
        left.close()


class MomentumAccumulation:
    """Adds gradients of earlier micro-batches to the momentum of SGD, so that no memory is needed for their sum.

    The last micro-batch makes of a momentum b, as ever, m b + (1 - d) g, with momentum m and dampening d. Adding
    (1 - d) / m times an earlier gradient to b before gives what the sum of both gradients would, up to rounding.

    Raises:
        NotReleasable: if the optimizer is another than SGD with momentum and without Nesterov's.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        groups = optimizer.param_groups
        if type(optimizer) is not torch.optim.SGD or any(
            not group["momentum"] or group["nesterov"] for group in groups
        ):
            raise NotReleasable(
                "accumulate(into='momentum') is exact for torch.optim.SGD with momentum and without nesterov, not for "
                f"{_told(optimizer)}: there the sum of all gradients is needed. `release.accumulate()` keeps it."
            )
        self._optimizer = optimizer

    def take(self, parameter: torch.Tensor, group: dict[str, Any]) -> bool:
        """Add the gradient of a parameter to its momentum; return whether that was possible, and it can be freed."""
        gradient, state = parameter.grad, self._optimizer.state[parameter]
        momentum, dampening = group["momentum"], group["dampening"]
        buffer = state.get("momentum_buffer")
        if gradient is None or gradient.is_sparse or (buffer is None and (dampening or group["fused"])):
            return False  # the first step of SGD takes the sum itself for its momentum
        share = (-1.0 if group["maximize"] else 1.0) * (1.0 - dampening) / momentum
        with torch.no_grad():
            if buffer is None:
                state["momentum_buffer"] = gradient * share
            else:
                buffer.add_(gradient, alpha=share)
        return True


def _told(optimizer: torch.optim.Optimizer) -> str:
    kind = type(optimizer).__name__
    if type(optimizer) is not torch.optim.SGD:
        return kind
    settings = ", ".join(f"{name}={optimizer.param_groups[0][name]}" for name in ("momentum", "nesterov"))
    return f"{kind} with {settings}"
