"""What optimizers remember of each parameter: `exp_avg`, `exp_avg_sq`, `momentum_buffer` and their like."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, Place
from backsight.recording.page import Page, Slot
from backsight.recording.taps.tap import Tap


class StateTap(Tap):
    """Takes the state of an optimizer after it has stepped; counters (tensors without a dimension) are left out."""

    name = "state"

    def __init__(self, notebook: Notebook, observed: Observed):
        super().__init__(notebook)
        self.observed = observed
        self._places: dict[int, Place] = {}
        self._slots: dict[tuple[str, str], Slot] = {}
        self._calls: dict[int, int] = {}
        self._page: Page | None = None

    def survey(self) -> None:
        self._places = self.observed.parameters()

    def after_update(self, page: Page, optimizer: torch.optim.Optimizer) -> None:
        if self._page is not page:
            self._page, self._calls = page, {}
        call = self._calls.get(id(optimizer), 0)
        self._calls[id(optimizer)] = call + 1
        if self.notebook.full(call, "an optimizer"):
            return
        held = list(self._held(optimizer))
        page.note_all([slot for slot, _ in held], [call] * len(held), [tensor for _, tensor in held])

    def _held(self, optimizer: torch.optim.Optimizer) -> Iterator[tuple[Slot, torch.Tensor]]:
        state = optimizer.state
        for group_number, group in enumerate(optimizer.param_groups):
            for number, parameter in enumerate(group["params"]):
                held = state.get(parameter)
                if not held:
                    continue
                place = self._places.get(id(parameter))
                if place is not None and place.holds(parameter):
                    name, owner = place.name, place.owner
                else:
                    name, owner = f"{type(optimizer).__name__}.{group_number}.{number}", None
                for key, value in held.items():
                    if issubclass(type(value), torch.Tensor) and value.ndim > 0:
                        yield self._slot(name, str(key), owner), value

    def _slot(self, parameter: str, key: str, owner: str | None) -> Slot:
        slot = self._slots.get((parameter, key))
        if slot is None:
            slot = self._slots[parameter, key] = Slot(f"{parameter}.{key}", "state", owner)
        return slot
