"""What all taps have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from backsight.naming.roots import ours
from backsight.recording.notebook import Notebook, PageHook
from backsight.recording.page import Page


class Tap:
    """A place that tensors are taken from.

    A tap that fails is detached for good, and the training goes on without it.
    """

    name = ""

    def __init__(self, notebook: Notebook):
        self.notebook = notebook
        self.broken = False
        self._handles: list[Any] = []

    def look(self) -> None:
        """Find in the models what is to be tapped; once, and again after something was replaced in them."""
        self.guarded(self.survey)

    def attach(self) -> None:
        """Install the hooks."""
        self.detach()
        self.guarded(self.install)

    def detach(self) -> None:
        """Remove every hook."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def survey(self) -> None:
        """Look at the models; for taps that need to."""

    def install(self) -> None:
        """Install hooks and keep their handles; for taps that need any."""

    def entered(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called in the midst of a module's call that began before the hooks were there."""

    def before_update(self, page: Page, optimizer: torch.optim.Optimizer | None) -> None:
        """Called before an optimizer steps, and at `rec.step()`, then without an optimizer."""

    def after_update(self, page: Page, optimizer: torch.optim.Optimizer) -> None:
        """Called after an optimizer has stepped."""

    def hook(self, take: Callable[..., None]) -> PageHook:
        """Return a hook for PyTorch that calls `take` with the page to write on, while there is one."""
        return PageHook(self.notebook, take, self.fail)

    def keep(self, handle: Any) -> None:
        """Remember what removes a hook."""
        self._handles.append(handle)

    def guarded(self, action: Callable[..., None], *args: Any) -> None:
        """Call something of this tap."""
        if self.broken:
            return
        try:
            action(*args)
        except Exception as failure:  # a failure of ours is not a failure of the training
            self.fail(ours(failure))

    def fail(self, failure: Exception) -> None:
        """Give up: detach, and say why."""
        self.broken = True
        self.detach()
        self.notebook.failed(self.name, failure)
