"""The parameters of an optimizer, and the hooks on them and on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch

from backsight.gradient_release._torch import bytes_of
from backsight.gradient_release.arrival import Book, Slot
from backsight.gradient_release.names import parameter_names
from backsight.gradient_release.norms import SMALL


class Attached(ABC):
    """Which parameters there are, which of them are attached to, and what they are called."""

    optimizer: torch.optim.Optimizer
    bucket: float
    _book: Book
    _handles: list[Any]
    _slots: dict[int, tuple[Slot, Any]]

    def __init__(self) -> None:
        self._slots = {}
        self._handles = []
        self._without_gradient: list[torch.Tensor] = []
        self._ids: list[list[int]] = []
        self._bytes = 0
        self._names: dict[int, str] = {}

    @abstractmethod
    def _few_are_enough(self) -> bool:
        """Whether gradients that fit into one small bucket may be left to the optimizer's own step."""

    @abstractmethod
    def _hook_the_step(self) -> list[Any]:
        """Hook what the optimizer does, and return the handles."""

    def name_of(self, slot: Slot) -> str:
        """Return what the program calls the parameter of a slot."""
        return self._name(slot.key)

    def parameter_of(self, slot: Slot) -> torch.Tensor | None:
        """Return the parameter of a slot, if the optimizer still holds it."""
        return next((each for each in self._parameters() if id(each) == slot.key), None)

    def _parameters(self) -> Iterator[torch.Tensor]:
        return (each for group in self.optimizer.param_groups for each in group["params"])

    def _changed(self) -> bool:
        """Whether parameters were added, or unfrozen, since they were looked at."""
        if self._ids != [list(map(id, group["params"])) for group in self.optimizer.param_groups]:
            return True
        return any(each.requires_grad for each in self._without_gradient) if self._without_gradient else False

    def _survey(self) -> None:
        """Look at what parameters there are; attach to them, unless all their gradients fit into the bucket anyway."""
        here = {id(each) for each in self._parameters()}
        for key in [key for key in self._slots if key not in here]:
            self._slots.pop(key)[1].remove()  # taken out of its group
        self._ids = [list(map(id, group["params"])) for group in self.optimizer.param_groups]
        self._without_gradient = [each for each in self._parameters() if not each.requires_grad]
        self._names = {}
        self._bytes = sum(bytes_of(each) for each in self._parameters() if each.requires_grad)
        if self._slots or not self._few_are_enough() or self._bytes > min(self.bucket, SMALL):
            self._attach()

    def _attach(self) -> None:
        """Attach to each parameter that can get a gradient and has not been attached to."""
        if not self._slots:
            self._handles += self._hook_the_step()
        for parameter in self._parameters():
            if parameter.requires_grad and id(parameter) not in self._slots:
                slot = Slot(self._book, parameter)
                register: Any = parameter.register_post_accumulate_grad_hook  # which has no types
                self._slots[id(parameter)] = slot, register(slot.arrive)

    def _name(self, key: int) -> str:
        if key not in self._names:
            self._names = parameter_names(self.optimizer)
        return self._names.get(key, "a parameter that the optimizer does not hold any more")
