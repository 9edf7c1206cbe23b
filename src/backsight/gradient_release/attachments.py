"""What a release is attached to: an optimizer's parameters, each by a hook and with a name, and its own steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from backsight.gradient_release._torch import (
    bytes_of,
    drop_empty_hooks,
    hook_first_after_step,
    hook_last_before_step,
)
from backsight.gradient_release.arrival import Slot
from backsight.gradient_release.ledger import Ledger
from backsight.gradient_release.placeholder import Placeholder
from backsight.naming import Name, search
from backsight.tape import in_backward


class Calls(NamedTuple):
    """What an optimizer is to call: before and after each step, when a state was loaded, and before one is stored."""

    before: Callable[..., Any]
    after: Callable[..., Any]
    loaded: Callable[..., Any]
    storing: Callable[..., Any]


class Attachments:
    """The parameters of an optimizer, which of them are attached to, and what they are called.

    ```python
    attachments = Attachments(optimizer, ledger, calls)     # hooks the optimizer's step, and no parameter yet
    attachments.survey()                                    # look at what parameters there are
    attachments.attach()                                    # hook those that can get a gradient
    ```

    Attributes:
        bytes: of the gradients of all parameters that get one.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, ledger: Ledger, calls: Calls):
        self.bytes = 0
        self._optimizer = optimizer
        self._ledger = ledger
        self._calls = calls
        self._slots: dict[int, tuple[Slot, Any]] = {}
        self._before = optimizer.register_step_pre_hook(calls.before)
        self._handles: list[Any] = []
        self._without_gradient: list[torch.Tensor] = []
        self._ids: list[list[int]] = []
        self._names: dict[int, str] = {}

    def __len__(self) -> int:
        """How many parameters are attached to."""
        return len(self._slots)

    def __contains__(self, key: int) -> bool:
        """Whether the parameter with this `id` is attached to."""
        return key in self._slots

    def slot(self, key: int) -> Slot:
        """Return the slot of a parameter, by its `id`."""
        return self._slots[key][0]

    def parameters(self) -> Iterator[torch.Tensor]:
        """Iterate over the optimizer's parameters, in its order."""
        return (each for group in self._optimizer.param_groups for each in group["params"])

    def name(self, key: int) -> str:
        """Return what the program calls a parameter, by its `id`."""
        if key not in self._names:
            self._names = parameter_names(self._optimizer)
        return self._names.get(key, "a parameter that the optimizer no longer holds")

    def changed(self) -> bool:
        """Whether parameters were added, or unfrozen, since they were looked at."""
        if self._ids != [list(map(id, group["params"])) for group in self._optimizer.param_groups]:
            return True
        return any(each.requires_grad for each in self._without_gradient) if self._without_gradient else False

    def survey(self) -> None:
        """Look at what parameters there are, and leave those alone that were taken out of their group."""
        here = {id(each) for each in self.parameters()}
        for key in [key for key in self._slots if key not in here]:
            self._slots.pop(key)[1].remove()
        self._ids = [list(map(id, group["params"])) for group in self._optimizer.param_groups]
        self._without_gradient = [each for each in self.parameters() if not each.requires_grad]
        self._names = {}
        self.bytes = sum(bytes_of(each) for each in self.parameters() if each.requires_grad)

    def attach(self) -> None:
        """Attach to each parameter that can get a gradient and has not been attached to."""
        if not self._handles:
            self._hook_the_step()
        for parameter in self.parameters():
            if parameter.requires_grad and id(parameter) not in self._slots:
                slot = Slot(self._ledger, parameter)
                register: Any = parameter.register_post_accumulate_grad_hook  # which has no types
                self._slots[id(parameter)] = slot, register(slot.arrive)

    def be_last_before_step(self) -> None:
        """Have what is called before each step be the last, so that hooks of the user are seen."""
        hook_last_before_step(self._optimizer, self._before)

    def close(self) -> None:
        """Take every hook away, and every placeholder."""
        self._before.remove()
        for handle in self._handles:
            handle.remove()
        slots, self._slots = self._slots, {}
        for _, handle in slots.values():
            handle.remove()
        for parameter in self.parameters():
            if not in_backward():
                drop_empty_hooks(parameter)
            if type(parameter.grad) is Placeholder:
                parameter.grad = None

    def _hook_the_step(self) -> None:
        """Hook what else the optimizer does, once there is a parameter that may be stepped before."""
        optimizer, calls = self._optimizer, self._calls
        after = optimizer.register_step_post_hook(calls.after)
        hook_first_after_step(optimizer, after)  # a hook of the user may call zero_grad()
        self._handles = [
            after,
            optimizer.register_load_state_dict_post_hook(calls.loaded),
            optimizer.register_state_dict_pre_hook(calls.storing),
        ]


_OURS = ("._ledger.", ".ledger.", "._kept", "._without_gradient")
"""Attributes of a release through which parameters can be reached."""


def parameter_names(optimizer: torch.optim.Optimizer) -> dict[int, str]:
    """Return a name for each parameter of an optimizer, by the `id` of the parameter, in the optimizer's order.

    Names that were given to the optimizer come first (`AdamW(model.named_parameters())`), then those by which the
    program holds them; a parameter without either is named by its place: "group 0, parameter 3 of shape (50, 50)".
    """
    places = [
        (parameter, f"group {number}, parameter {at} of shape {tuple(parameter.shape)}", given)
        for number, group in enumerate(optimizer.param_groups)
        for at, (parameter, given) in enumerate(zip(group["params"], _given(group), strict=True))
    ]
    found = search([parameter for parameter, _, _ in places]).names
    named: dict[int, str] = {}
    for (parameter, place, given), names in zip(places, found, strict=True):
        text = given or next((name.path for name in names if _is_of_the_program(name)), place)
        named[id(parameter)] = text if text not in named.values() else f"{text} ({place})"
    return named


def _given(group: dict[str, list[str]]) -> list[str | None]:
    """Return the names that the optimizer was made with."""
    return list(group["param_names"]) if "param_names" in group else [None] * len(group["params"])


def _is_of_the_program(name: Name) -> bool:
    """Whether a name is one that the program knows, and does not go through what a release holds meanwhile."""
    return bool(name.exact and name.path) and not any(part in name.path for part in _OURS)
