"""The update itself: what an optimizer adds to each weight."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.recording.held import HeldPlace
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, Place
from backsight.recording.page import Entry, Page, Slot
from backsight.recording.taps.tap import Tap
from backsight.tape import is_captured


class UpdateTap(Tap):
    """Takes weight after minus weight before, of those parameters that the optimizer holds.

    For the time of `optimizer.step()` this keeps a copy of them, so it has to be asked for: `taps=(..., "update")`.
    """

    name = "update"

    def __init__(self, notebook: Notebook, observed: Observed):
        super().__init__(notebook)
        self.observed = observed
        self._places: dict[int, tuple[Place | HeldPlace, Slot]] = {}
        self._before: list[tuple[Slot, torch.Tensor, torch.Tensor]] = []
        self._page: Page | None = None
        self._counts: dict[Slot, int] = {}

    def survey(self) -> None:
        self._places = {
            key: (place, Slot(place.name, "update", place.owner)) for key, place in self.observed.parameters().items()
        }

    def detach(self) -> None:
        super().detach()
        self._before = []

    @torch.no_grad()
    def before_update(self, page: Page, optimizer: torch.optim.Optimizer | None) -> None:
        held = () if optimizer is None or is_captured() else self._held(optimizer)
        self._before = [(slot, parameter, parameter.detach().clone()) for slot, parameter in held]

    @torch.no_grad()
    def after_update(self, page: Page, optimizer: torch.optim.Optimizer) -> None:
        before, self._before = self._before, []
        if self._page is not page:
            self._page, self._counts = page, {}
        updates: list[Entry] = []
        for slot, parameter, copy in before:
            call = self._counts.get(slot, 0)
            self._counts[slot] = call + 1
            if not self.notebook.full(call, "an optimizer"):
                update = copy.neg_().add_(parameter.detach())
                updates.append((slot, call, update))
        page.note_all(updates)

    def _held(self, optimizer: torch.optim.Optimizer) -> Iterator[tuple[Slot, torch.Tensor]]:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                place, slot = self._places.get(id(parameter), (None, None))
                if place is not None and slot is not None and place.holds(parameter) and parameter.requires_grad:
                    yield slot, parameter
