"""The gradient that all ranks of a DDP share, as the optimizer is given it."""

from __future__ import annotations

import torch

from backsight.recording.held import HeldPlace, parameters_of
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, Place
from backsight.recording.page import Entry, Page, Slot
from backsight.recording.taps.tap import Tap
from backsight.tape import is_captured


class AveragedTap(Tap):
    """Takes `parameter.grad` right before the optimizer steps, where every rank has the same weights.

    By then DDP has averaged it, and it may have been unscaled and clipped: what each rank has added itself are the rows
    of `GradientTap`. Their norm does not tell that of the average, so it has to be read. Elsewhere nothing is read: the
    two are the same but for clipping.
    """

    name = "averaged_grad"

    def __init__(self, notebook: Notebook, observed: Observed):
        super().__init__(notebook)
        self.observed = observed
        self._places: list[tuple[Place | HeldPlace, Slot]] = []
        self._page: Page | None = None
        self._counts: dict[Slot, int] = {}

    def survey(self) -> None:
        self._places = [
            (place, Slot(place.name, "averaged_grad", place.owner)) for place in self.observed.parameters().values()
        ]

    @torch.no_grad()
    def before_update(self, page: Page, optimizer: torch.optim.Optimizer | None) -> None:
        if not page.replicated or optimizer is None or is_captured():
            return
        if self._page is not page:
            self._page, self._counts = page, {}
        held, entries = parameters_of(optimizer), list[Entry]()
        for place, slot in self._places:
            tensor = place.tensor()
            if tensor is not None and id(tensor) in held and tensor.is_leaf and tensor.grad is not None:
                call = self._counts.get(slot, 0)
                self._counts[slot] = call + 1
                if not self.notebook.full(call, "an optimizer"):
                    entries.append((slot, call, tensor.grad))
        page.note_all(entries)
