"""The notebook that all taps write into: the page of the step under way, if that step is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch.compiler import is_compiling

from backsight.naming.roots import ours
from backsight.recording._torch import note_trace, traced, transform
from backsight.recording.cost import Cost
from backsight.recording.hook import Hook, turn
from backsight.recording.metrics import Metrics
from backsight.recording.page import Page
from backsight.recording.statistics import native
from backsight.recording.voice import Voice
from backsight.tape import backward_number, no_torch_function, uncompiled, version


@dataclass(eq=False)
class Notebook:
    """Where taps write. `page` is None between recorded steps, and in a process that was forked off."""

    voice: Voice
    metrics: Metrics
    failed: Callable[[str, Exception], None]
    """Called with the name of a tap and what it raised."""
    cut: Callable[[str], None]
    """Called with the name of what was called more often in a step than is recorded, once for each name."""
    calls: int
    """Calls of one module, or arrivals of one gradient, that are recorded in a step."""
    cost: Cost
    histograms: bool = True
    page: Page | None = None
    arrived: dict[int, int | None] = field(default_factory=dict)
    """The parameters whose gradients have arrived since an optimizer stepped or a backward pass was counted, by id, and
    their versions then."""
    between: bool = False
    """Whether a step has just ended, so that what gradients there are were left over by it."""
    begun: Callable[[], None] | None = None
    """Called before a call with grad mode on that comes after a backward pass: the step ended in between, if steps are
    counted by backward passes."""
    by_hand: Callable[[], None] | None = None
    """Called where a gradient arrives of a parameter that was written to since one arrived, and no step of an optimizer
    or call was seen in between."""
    first_call: Callable[[], None] | None = None
    """Called at the first call of a module in a recorded step."""
    backward_began: Callable[[], None] | None = None
    """Called at the first gradient of a backward pass, while there is a page."""
    every_loss: bool = False
    """Whether that is called while there is none, too."""
    backward: int = -1
    """The number of the backward pass whose first gradient arrived last."""
    passed_by: Callable[[], None] | None = None
    """Called where a module is called that is not recorded."""
    _cut: set[str] = field(default_factory=set)
    _sheet: Any = None
    """What the kernel writes on. One page after the other has it: its memory is in the processor's caches."""

    def open(self, step: int) -> None:
        """Open a page for this step."""
        if self._sheet is None:
            self._sheet = native.sheet(self.histograms)
        self.page = Page(step, self.histograms, self.metrics if self.metrics else None, self._sheet)

    def close(self) -> Page | None:
        """Return the page that was open, finished: nothing can be written on it any more."""
        page, self.page = self.page, None
        if page is not None:
            page.finish()
        return page

    def arrive(self, parameter: torch.Tensor) -> None:
        """Note that the gradient of a parameter has arrived."""
        at = version(parameter)
        backward = backward_number()
        if backward != self.backward:
            self.backward = backward
            wanted = (self.page is not None or self.every_loss) and backward != -1
            if wanted and self.backward_began is not None and transform() is None and not traced():
                self.backward_began()
        before = self.arrived.get(id(parameter), at)
        self.arrived[id(parameter)] = at
        if before != at and self.by_hand is not None:
            self.by_hand()

    def writable(self) -> bool:
        """Whether there is a page, and what is called is the program itself, and no trace or transform of it."""
        return self.page is not None and transform() is None and not traced()

    def full(self, call: int, name: str) -> bool:
        """Whether this call is one too many; the run says so once for each name."""
        if call < self.calls:
            return False
        if name not in self._cut:
            self._cut.add(name)
            self.cut(name)
        return True


class PageHook(Hook):
    """Calls `take` with the page to write on, and with what PyTorch gives to the hook; or not, where there is no page.

    Nothing is recorded while a metric of the user runs, nor in `vmap` and its like, whose tensors stand for others, nor
    while FX or TorchScript trace.
    """

    __slots__ = ("_notebook",)

    def __init__(self, notebook: Notebook, take: Callable[..., None], failed: Callable[[Exception], None]):
        super().__init__(take, failed, notebook.cost)
        self._notebook = notebook

    @uncompiled
    def __call__(self, *args: Any) -> None:
        if is_compiling():  # as in `Hook`; a call of that would cost as much as all that is here
            note_trace()
        elif self._notebook.writable():
            self.write(self._take, *args)

    def write(self, take: Callable[..., None], *args: Any) -> None:
        """Call `take` with the page, and count what that costs."""
        notebook = self._notebook
        began = perf_counter()
        try:
            with turn, no_torch_function():  # as in `Hook`
                page = notebook.page  # another thread may have ended the step
                if page is not None and not notebook.metrics.running:
                    take(page, *args)
        except Exception as failure:  # a failure of ours is not a failure of the training
            self._failed(ours(failure))
        notebook.cost.add(perf_counter() - began)
