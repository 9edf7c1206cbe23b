"""What happens when the optimizer's own step comes, of which a part was done inside of the backward pass.

It takes the placeholders away, steps what is left, and puts them back; so it does all the counting, and its hooks run
once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from backsight.blame import warn
from backsight.gradient_release._torch import bytes_of
from backsight.gradient_release.arrival import STEPPED
from backsight.gradient_release.errors import AlreadyStepped, ReleaseError, ReleaseWarning
from backsight.gradient_release.first_look import refuse_compiled
from backsight.gradient_release.ledger import Entry
from backsight.gradient_release.placeholder import Placeholder
from backsight.gradient_release.stepping import Stepping
from backsight.text import listed


class OwnStep:
    """The optimizer's own step, for what `stepping` has left to it."""

    def __init__(self, stepping: Stepping):
        self._stepping = stepping
        self._withdrawn: list[Entry] = []

    def before(self, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Take the placeholders away, so that the step sees what is left; return other arguments if it has a closure.

        Raises:
            AlreadyStepped: if something has happened that came too late for parameters that were stepped.
        """
        if torch.compiler.is_compiling():  # a refusal that is traced would be lost
            torch.compiler.disable(refuse_compiled)()  # type: ignore[no-untyped-call]  # torch's
        if kwargs or len(args) > 1:
            closure = next((each for each in (*args[1:], *kwargs.values()) if callable(each)), None)
            if closure is not None:
                return self._expect(closure, args, kwargs)
            self._refuse_arguments(args, kwargs)
        self._prepare()
        return None

    def after(self) -> None:
        """End the step: everything is as the ordinary loop leaves it, but for placeholders until `zero_grad`."""
        stepping, ledger = self._stepping, self._stepping.ledger
        if ledger.idle:
            self._take_norms()  # those of the closure
        if stepping.clipping is not None:
            stepping.clipping.after_step()
        stepping.partial.finish()
        for slot, parameter in self._withdrawn:
            if parameter.grad is None:
                parameter.grad = slot.placeholder
        self._withdrawn.clear()
        stepping.norms.turn(ledger.absorbed)
        self._turn()
        stepping.averaging.turn()
        stepping.attachments.be_last_before_step()
        stepping.know_attributes()
        if stepping.attachments.changed():
            stepping.survey()

    def storing(self) -> None:
        """Say that a state is stored which belongs to no step."""
        if self._stepping.ledger.stepped:
            warn(
                f"state_dict() in the middle of a step: {listed(self._stepping.stepped, 3)} took it inside backward "
                "already. Save model and optimizer after optimizer.step().",
                ReleaseWarning,
            )

    def loaded(self) -> None:
        """Another state was loaded: forget the step under way."""
        stepping = self._stepping
        stepping.midstep.end()
        for _, parameter in stepping.ledger.stepped:
            parameter.grad = None
        self._withdrawn.clear()
        stepping.partial.abandon()
        stepping.norms.abandon()
        stepping.know_attributes()
        self._turn()

    def _turn(self) -> None:
        self._stepping.ledger.turn()
        self._stepping.midstep.turn()

    def _prepare(self) -> None:
        stepping, ledger = self._stepping, self._stepping.ledger
        if not stepping.attachments:
            self._before_unattached()
            return
        if stepping.clipping is not None:
            stepping.clipping.before_step()
        if ledger.stepped or ledger.zeroed:
            self._withdraw()
        if not ledger.idle:
            stepping.averaging.average(self._left())
            stepping.see_peak()
            self._take_norms()

    def _before_unattached(self) -> None:
        """Keep the few small gradients that there are; this is all that a small model pays for."""
        stepping = self._stepping
        groups = stepping.optimizer.param_groups
        small = [(p, g, g._version) for group in groups for p in group["params"] if (g := p.grad) is not None]
        earlier = stepping.norms.keep(small)
        if len(small) != len(earlier):
            alive = sum(map(bytes_of, (each for each, _, _ in small)))
            stepping.peak_gradient_bytes = max(stepping.peak_gradient_bytes, alive)
            stepping.survey()
        elif small and small[0][1] is earlier[0][1]:
            stepping.attachments.attach()  # this loop zeroes gradients in place: their norms have to be taken in time
        if stepping.attachments:  # from now on no gradient is kept, and there may be large ones
            stepping.norms.keep_none()

    def _withdraw(self) -> None:
        """Take the placeholders out of `grad`, and put zeros there for those that were zeroed."""
        stepping, ledger = self._stepping, self._stepping.ledger
        if not self._withdrawn:  # else a step failed, or is that of a class that calls its base's
            stepping.midstep.end()
            stepping.midstep.check(stepping.optimizer.param_groups, stepping.attributes())
            self._withdrawn = [entry for entry in ledger.stepped if entry[1].grad is not None]
            for _, parameter in self._withdrawn:
                parameter.grad = None
        for slot in ledger.zeroed:
            zeroed = stepping.parameter_of(slot)
            done = slot.state == STEPPED and slot.number == ledger.number
            if zeroed is not None and zeroed.grad is None and not done:
                zeroed.grad = torch.zeros_like(zeroed)

    def _refuse_arguments(self, args: Any, kwargs: Any) -> None:
        """Refuse what a step is called with, such as a loss, when some parameters were stepped without it.

        Raises:
            AlreadyStepped: if there is such an argument, and such parameters.
        """
        given = [*(f"argument {at}" for at, each in enumerate(args[1:], 1) if each is not None), *kwargs]
        given = [name for name in given if name not in kwargs or kwargs[name] is not None]
        if given and self._stepping.ledger.stepped:
            raise AlreadyStepped(
                f"{type(self._stepping.optimizer).__name__}.step() is called with {' and '.join(given)}, and "
                f"{listed(self._stepping.stepped, 3)} took this step inside backward without it. Keep the "
                "gradients of such a step: run its backward within `with release.accumulate():`. Or make the "
                "optimizer read it from an attribute that you set before backward()."
            )

    def _expect(self, closure: Callable[[], Any], args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Have a backward within `optimizer.step(closure)` be released, and what it leaves be stepped after it."""
        stepping = self._stepping
        kind, trusted = type(stepping.optimizer).__name__, stepping.partial.trusted
        if stepping.clipping is not None and not trusted:
            raise ReleaseError(
                f"release.clip() does not work with {kind}.step(closure), which may call its closure several times: "
                "clip inside the closure."
            )
        if stepping.ledger.stepped:
            raise AlreadyStepped(
                f"optimizer.step(closure) runs its own backward, but {listed(stepping.stepped, 3)} already took this "
                "step in the previous one. Call only the closure, or backward and step() without it."
            )
        if not trusted:
            stepping.ledger.idle = True  # it may call its closure at any time, and several times
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
        stepping, left = self._stepping, self._left()
        again = next((each for each in left if type(each.grad) is Placeholder), None)
        if again is not None:
            raise AlreadyStepped(
                "optimizer.step() ran a second time for the same gradient of "
                f"{stepping.attachments.name(id(again))}, which was used for the previous step and freed. Call "
                "zero_grad() after each optimizer.step()."
            )
        if stepping.clipping is not None:
            stepping.clipping.scale(left)
        elif left:
            stepping.norms.now.take([id(each) for each in left], [each.grad for each in left if each.grad is not None])

    def _left(self) -> list[torch.Tensor]:
        """Return the parameters that have a gradient."""
        return [each for each in self._stepping.attachments.parameters() if each.grad is not None]
