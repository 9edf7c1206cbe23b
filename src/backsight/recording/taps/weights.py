"""Weights and buffers, once a step."""

from __future__ import annotations

import torch

from backsight.recording._torch import is_sharded
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, Place
from backsight.recording.page import Page, Slot
from backsight.recording.taps.tap import Tap


class WeightTap(Tap):
    """Takes weights and buffers as the first module call of the step finds them: those that the step is made with.

    Where no such call is seen (compiled, not tapped), they are taken before the optimizer steps. So are sharded ones:
    FSDP puts them together for the forward, and a rank records its own shard.
    """

    name = "weight"

    def __init__(self, notebook: Notebook, observed: Observed):
        super().__init__(notebook)
        self.observed = observed
        self._places: list[tuple[Slot, Place]] = []
        self._taken: Page | None = None
        self._sharded = False

    def survey(self) -> None:
        self._places = [
            (Slot(place.name, kind, place.owner), place)
            for table, kind in (("_parameters", "weight"), ("_buffers", "buffer"))
            for place in self.observed.places(table)
        ]

        self._sharded = any((tensor := place.tensor()) is not None and is_sharded(tensor) for _, place in self._places)

    def first_call(self, page: Page) -> None:
        """Called with the first module call of a step."""
        if not self._sharded:
            self.take(page)

    def take(self, page: Page) -> None:
        """Take them, unless they are on this page already."""
        if self._taken is page:
            return
        self._taken = page
        rows, tensors = [], []
        for slot, place in self._places:
            if (tensor := place.tensor()) is not None:
                rows.append(slot.row(0, tensor))
                tensors.append(tensor)
        page.note_all(rows, tensors)

    def before_update(self, page: Page, optimizer: torch.optim.Optimizer | None) -> None:
        self.take(page)
