"""What optimizers remember of each parameter: `exp_avg`, `exp_avg_sq`, `momentum_buffer` and their like."""

from __future__ import annotations

import torch

from backsight.recording.held import HeldPlace
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, Place
from backsight.recording.page import Entry, Page, Slot
from backsight.recording.taps.tap import Tap


class StateTap(Tap):
    """Takes the state of an optimizer after it has stepped; counters (tensors without a dimension) are left out."""

    name = "state"

    def __init__(self, notebook: Notebook, observed: Observed):
        super().__init__(notebook)
        self.observed = observed
        self._places: dict[int, Place | HeldPlace] = {}
        self._slots: dict[str, dict[str, Slot]] = {}
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
        entries: list[Entry] = []
        states, plain = optimizer.state, torch.Tensor
        for group_number, group in enumerate(optimizer.param_groups):
            for number, parameter in enumerate(group["params"]):
                state = states.get(parameter)
                if not state:
                    continue
                name, owner = self._named(parameter) or (f"{type(optimizer).__name__}.{group_number}.{number}", None)
                slots = self._slots.get(name) or self._slots.setdefault(name, {})
                for key, value in state.items():
                    if (type(value) is plain or issubclass(type(value), plain)) and value.ndim:
                        slot = slots.get(key) or slots.setdefault(key, Slot(f"{name}.{key}", "state", owner))
                        entries.append((slot, call, value))
        page.note_all(entries)

    def _named(self, parameter: torch.Tensor) -> tuple[str, str | None] | None:
        """Return the name of a parameter and that of its module, if a module owns it."""
        place = self._places.get(id(parameter))
        return (place.name, place.owner) if place is not None and place.holds(parameter) else None
