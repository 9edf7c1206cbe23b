"""What must stay as it is between backward and `optimizer.step()`, when some parameters have already taken the step.

The ordinary loop may change a learning rate there, or a weight, or take gradients away: everything is still to come.
Here that would come too late for a part of the parameters, and nobody would see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from backsight.gradient_release._torch import is_sharded
from backsight.gradient_release.ahead import Ahead, end
from backsight.gradient_release.arrival import Book, Slot
from backsight.gradient_release.errors import AlreadyStepped
from backsight.gradient_release.remedy import listed

_KEEP = "or keep the gradients of such a step: run its backward within `with release.accumulate():`."

Groups = Sequence[dict[str, Any]]


class MidStep:
    """Compares the end of a step with the moment when its first parameters were stepped.

    ```python
    midstep.note(optimizer.param_groups)     # after a partial step
    midstep.begin(slot, parameter)           # for each parameter that took it
    midstep.check(book, optimizer.param_groups, name_of)
    ```
    """

    def __init__(self, book: Book) -> None:
        self._settings: list[dict[str, Any]] = []
        self._ahead = Ahead(book)

    def note(self, groups: Groups) -> None:
        """Remember the settings of the groups."""
        self._settings = [_settings(group) for group in groups]

    def begin(self, slot: Slot, parameter: torch.Tensor) -> None:
        """Watch over a parameter that has been stepped."""
        slot.version, slot.address = parameter._version, _address(parameter)
        self._ahead.begin(parameter)

    def end(self, book: Book) -> None:
        """Leave parameters alone: the optimizer's own step comes, or another state was loaded."""
        for _, parameter in book.stepped:
            end(parameter)

    def turn(self) -> None:
        """Begin the next step."""
        self._ahead.turn()

    def check(self, book: Book, groups: Groups, name_of: Callable[[Slot], str]) -> None:
        """Refuse what the ordinary loop would have let count for parameters that were stepped before.

        Raises:
            AlreadyStepped: if a setting, a weight or a gradient is not what it was. Where a gradient was taken away, a
                second call goes through: what has happened is known by then.
        """

        def who(slots: Sequence[Slot]) -> str:
            return listed(tuple(name_of(slot) for slot in slots))

        stepped = [slot for slot, _ in book.stepped]
        replaced = [slot for slot, each in book.stepped if each.grad is not None and each.grad is not slot.placeholder]
        if replaced:
            raise AlreadyStepped(
                f"{name_of(replaced[0])} has a new gradient, and was already stepped inside of the backward pass. "
                "Keep gradients that you mean to change within `with release.accumulate():`."
            )
        self._refuse_settings(groups, who, stepped)
        moved = [slot for slot, each in book.stepped if self._has_changed(slot, each)]
        if moved:
            raise AlreadyStepped(
                f"{who(moved)} changed between backward() and optimizer.step(), after having taken this step inside of "
                f"backward. Change weights before backward() or after step(), {_KEEP}"
            )
        taken = [slot for slot, each in book.stepped if each.grad is None]
        if taken and not book.passing:
            book.passing = True
            raise AlreadyStepped(
                f"The gradients of {who(taken)} were taken away between backward() and optimizer.step(), as if to skip "
                "this step, which they have already taken inside of backward. Freeze parameters before backward() "
                f"(requires_grad_(False)), {_KEEP} To go on as it is, call optimizer.step() once more."
            )

    def _has_changed(self, slot: Slot, parameter: torch.Tensor) -> bool:
        """Whether a parameter was written to, or its memory replaced, since it was stepped."""
        return (
            parameter._version != slot.version or _address(parameter) != slot.address or self._ahead.changed(parameter)
        )

    def _refuse_settings(self, groups: Groups, who: Callable[[Sequence[Slot]], str], stepped: Sequence[Slot]) -> None:
        for number, (before, group) in enumerate(zip(self._settings, groups, strict=False)):
            now = _settings(group)
            if now != before:
                key = next(key for key in {**before, **now} if before.get(key) != now.get(key))
                was = "" if isinstance(group.get(key), torch.Tensor) else f", from {before.get(key)} to {now.get(key)},"
                raise AlreadyStepped(
                    f"{key!r} of group {number} changed{was} between backward() and optimizer.step(), after "
                    f"{who(stepped)} had taken this step inside of backward. Set it before backward(), {_KEEP}"
                )


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


def _address(parameter: torch.Tensor) -> int:
    """Return where the values of a parameter are; those of a DTensor are no single place."""
    return 0 if is_sharded(parameter) else parameter.data_ptr()
