"""What happens when the optimizer's own step comes, of which a part was done inside of the backward pass.

It takes the placeholders away, steps what is left, and puts them back; so it does all the counting, and its hooks run
once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from backsight.gradient_release._torch import bytes_of, hook_first_after_step, hook_last_before_step
from backsight.gradient_release.arrival import STEPPED, Slot
from backsight.gradient_release.errors import AlreadyStepped, ReleaseError, ReleaseWarning
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.first_look import refuse_compiled
from backsight.gradient_release.norms import Kept, Norms
from backsight.gradient_release.placeholder import Placeholder
from backsight.gradient_release.remedy import listed
from backsight.gradient_release.stepping import Stepping


class OwnStep(Stepping):
    """A release at the optimizer's own step."""

    def __init__(self, optimizer: torch.optim.Optimizer, bucket: float, evidence: Evidence):
        super().__init__(optimizer, bucket, evidence)
        self._last_norms = Norms()
        self._small: list[Kept] = self._last_norms.small
        """While nothing is attached to, the gradients of the last step."""
        self._withdrawn: list[tuple[Slot, torch.Tensor]] = []
        self._handles.append(optimizer.register_step_pre_hook(self._before))
        self._survey()

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Take the placeholders away, so that the optimizer's own step sees what is left."""
        if torch.compiler.is_compiling():  # a refusal that is traced would be lost
            torch.compiler.disable(refuse_compiled)()  # type: ignore[no-untyped-call]  # torch's
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
            self.peak_gradient_bytes = max(self.peak_gradient_bytes, sum(map(bytes_of, (each for each, _, _ in small))))
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
            self._midstep.end(self._book)
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
        self._midstep.turn()
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
        self._midstep.end(self._book)
        self._midstep.turn()
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
