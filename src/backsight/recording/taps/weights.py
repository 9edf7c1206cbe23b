"""Weights and buffers, once a step."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from backsight.recording._torch import in_functional_call, is_sharded
from backsight.recording.held import HeldPlace
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, Place
from backsight.recording.page import Page, Slot
from backsight.recording.taps.tap import Tap


class WeightTap(Tap):
    """Takes weights and buffers as the first call that trains finds them: those that the step is made with.

    Those of a model that comes in the midst of the step are taken when it comes.

    Where no such call is seen (compiled, not tapped, `torch.func.functional_call`), they are taken before the optimizer
    steps. So are weights where some are sharded: FSDP puts them together for the forward, and a rank records its own
    shard.
    """

    name = "weight"

    def __init__(self, notebook: Notebook, observed: Observed):
        super().__init__(notebook)
        self.observed = observed
        self._places: list[tuple[Slot, Place | HeldPlace]] = []
        self._taken: Page | None = None
        self._buffers_taken: Page | None = None
        self._sharded = False
        self._late: list[tuple[Slot, Place | HeldPlace]] = []
        """Those that came while something else was in their place."""

    def survey(self) -> None:
        had = {(slot.name, slot.kind) for slot, _ in self._places}
        self._places = [
            (Slot(place.name, kind, place.owner), place)
            for table, kind in (("_parameters", "weight"), ("_buffers", "buffer"))
            for place in self.observed.places(table)
        ]
        self._sharded = any((tensor := place.tensor()) is not None and is_sharded(tensor) for _, place in self._places)
        page = self.notebook.page
        if page is not None and page in (self._taken, self._buffers_taken):
            new = [each for each in self._places if (each[0].name, each[0].kind) not in had]
            came = new if self._taken is page else _buffers(new)
            if in_functional_call():
                self._late = came
            else:
                self._read(page, came)

    def first_call(self, page: Page) -> None:
        """Called with the first call of a module that trains."""
        if not self._sharded:
            self.take(page)
        elif self._taken is not page:
            self._buffers_taken = page
            self._read(page, _buffers(self._places))

    def take(self, page: Page) -> None:
        """Take them, unless they are on this page already."""
        if self._taken is not page:
            self._taken = page
            done = self._buffers_taken is page
            self._read(page, (each for each in self._places if not (done and each[0].kind == "buffer")))

    def before_update(self, page: Page, optimizer: torch.optim.Optimizer | None) -> None:
        if self._taken is page:
            late, self._late = self._late, []
            self._read(page, late)
        self._late = []
        self.take(page)

    @staticmethod
    def _read(page: Page, places: Iterable[tuple[Slot, Place | HeldPlace]]) -> None:
        page.note_all([(slot, 0, tensor) for slot, place in places if (tensor := place.tensor()) is not None])


def _buffers(places: Iterable[tuple[Slot, Place | HeldPlace]]) -> list[tuple[Slot, Place | HeldPlace]]:
    return [each for each in places if each[0].kind == "buffer"]
