"""What must stay as it is between backward and `optimizer.step()`, when some parameters have already taken the step.

The ordinary loop may change a learning rate there, or a weight, or take gradients away: everything is still to come.
Here that would come too late for a part of the parameters, and nobody would see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backsight.gradient_release.ahead import Ahead, address, end
from backsight.gradient_release.arrival import Slot
from backsight.gradient_release.errors import AlreadyStepped
from backsight.gradient_release.ledger import Ledger
from backsight.text import listed

_KEEP = "or keep the gradients of such a step: run its backward within `with release.accumulate():`."

Groups = Sequence[dict[str, Any]]


class MidStep:
    """Compares the end of a step with the moment when its first parameters were stepped.

    ```python
    midstep.note(optimizer.param_groups, attributes(optimizer))      # after a partial step
    midstep.begin(slot, parameter)                                   # for each parameter that took it
    midstep.check(optimizer.param_groups, attributes(optimizer))
    ```
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._settings: list[dict[str, Any]] = []
        self._attributes: dict[str, Any] = {}
        self._ahead = Ahead(ledger)

    def note(self, groups: Groups, attributes: dict[str, Any]) -> None:
        """Remember the settings of the groups, and those that the optimizer itself holds."""
        self._settings = [_settings(group) for group in groups]
        self._attributes = _settings(attributes)

    def begin(self, slot: Slot, parameter: torch.Tensor) -> None:
        """Watch over a parameter that has been stepped."""
        slot.version, slot.address = parameter._version, address(parameter)
        self._ahead.begin(parameter)

    def end(self) -> None:
        """Leave parameters alone: the optimizer's own step comes, or another state was loaded."""
        leave_alone(self._ledger)

    def turn(self) -> None:
        """Begin the next step."""
        self._ahead.turn()

    def check(self, groups: Groups, attributes: dict[str, Any]) -> None:
        """Refuse what the ordinary loop would have let count for parameters that were stepped before.

        Raises:
            AlreadyStepped: if a setting, a weight or a gradient is not what it was. Where a gradient was taken away, a
                second call goes through: what has happened is known by then.
        """
        ledger = self._ledger
        stepped = [slot for slot, _ in ledger.stepped]
        there = [(slot, each.grad) for slot, each in ledger.stepped if each.grad is not None]
        replaced = [slot for slot, gradient in there if gradient is not slot.placeholder]
        if replaced:
            raise AlreadyStepped(
                f"{replaced[0].name()} has a new gradient but was already stepped inside the backward pass. To change "
                "gradients, keep them with `with release.accumulate():`."
            )
        for number, (before, group) in enumerate(zip(self._settings, groups, strict=False)):
            self._refuse_settings(f"group {number}", before, group, stepped)
        self._refuse_settings("the optimizer", self._attributes, attributes, stepped)
        moved = [slot for slot, each in ledger.stepped if self._has_changed(slot, each)]
        if moved:
            raise AlreadyStepped(
                f"{_named(moved)} changed between backward() and optimizer.step(), after it was stepped inside "
                f"backward. Change weights before backward() or after step(), {_KEEP}"
            )
        taken = [slot for slot, each in ledger.stepped if each.grad is None]
        if taken and not ledger.passing:
            ledger.passing = True
            raise AlreadyStepped(
                f"The gradients of {_named(taken)} were removed between backward() and optimizer.step(), as if to "
                "skip this step, which was already taken inside backward. Freeze parameters before backward() "
                f"(requires_grad_(False)), {_KEEP} To continue, call optimizer.step() once more."
            )

    def _has_changed(self, slot: Slot, parameter: torch.Tensor) -> bool:
        """Whether a parameter was written to, or its memory replaced, since it was stepped."""
        return (
            parameter._version != slot.version or address(parameter) != slot.address or self._ahead.changed(parameter)
        )

    def _refuse_settings(
        self, where: str, before: dict[str, Any], holder: dict[str, Any], stepped: Sequence[Slot]
    ) -> None:
        now = _settings(holder)
        if now != before:
            key = next(key for key in {**before, **now} if before.get(key) != now.get(key))
            was = "" if isinstance(holder.get(key), torch.Tensor) else f", from {before.get(key)} to {now.get(key)},"
            raise AlreadyStepped(
                f"{key!r} of {where} changed{was} between backward() and optimizer.step(), after "
                f"{_named(stepped)} took this step inside backward. Set it before backward(), {_KEEP}"
            )


def leave_alone(ledger: Ledger) -> None:
    """Watch over no parameter any more."""
    for _, parameter in ledger.stepped:
        end(parameter)


def _named(slots: Sequence[Slot]) -> str:
    return listed([slot.name() for slot in slots], 3)


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {key: _still(value) for key, value in group.items() if key != "params" and key != "param_names"}


def _still(value: Any) -> Any:
    """Return what is equal later if, and only if, a setting has not changed."""
    if value is None or isinstance(value, (int, float, complex, str)):
        return value
    if isinstance(value, torch.Tensor):
        return id(value), value._version
    if isinstance(value, (list, tuple)):
        return tuple(_still(each) for each in value)
    return None
