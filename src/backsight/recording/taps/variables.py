"""Free variables: tensors of the program that belong to no module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

import torch

from backsight.naming.roots import ours
from backsight.recording._torch import as_the_program
from backsight.recording.nested import tensors_in
from backsight.recording.notebook import Notebook
from backsight.recording.page import Page, Slot
from backsight.recording.taps.tap import Tap
from backsight.tape import is_leaf

Variables = Mapping[str, Callable[[], Any]] | Iterable[str]


class VariableTap(Tap):
    """Takes variables at the end of the step, before the optimizer steps, and the gradients of those that have one.

    A variable that is given by name only is looked up in the function that steps, and in those that called it.
    """

    name = "variables"

    def __init__(self, notebook: Notebook, variables: Mapping[str, Callable[[], Any] | None]):
        super().__init__(notebook)
        self._variables = dict(variables)
        self._slots: dict[tuple[str, str], Slot] = {}
        self._page: Page | None = None

    def before_update(self, page: Page, optimizer: torch.optim.Optimizer | None) -> None:
        if self._page is page:
            return
        self._page = page
        for name, ask in list(self._variables.items()):
            try:
                with as_the_program():
                    value = _look_up(name) if ask is None else ask()
            except Exception as failure:  # the user's function, in the middle of the user's training
                ours(failure)
                del self._variables[name]
                self.notebook.failed(f"variable {name!r}", failure)
                continue
            for path, tensor in tensors_in(value, name):
                self._note(page, path, tensor)

    def _note(self, page: Page, name: str, tensor: torch.Tensor) -> None:
        page.note(self._slot(name, "variable"), 0, tensor)
        if is_leaf(tensor) and tensor.grad is not None:
            page.note(self._slot(name, "grad"), 0, tensor.grad)

    def _slot(self, name: str, kind: str) -> Slot:
        return self._slots.setdefault((name, kind), Slot(name, kind, None))


def by_name(variables: Any) -> dict[str, Callable[[], Any] | None]:
    """Return variables as they may be given: names, or functions by name.

    Raises:
        TypeError: if they are given in another way.
    """
    if isinstance(variables, str):
        variables = (variables,)
    given = dict(variables) if isinstance(variables, Mapping) else dict.fromkeys(variables or ())
    for name, ask in given.items():
        if not isinstance(name, str) or not (ask is None or callable(ask)) or isinstance(ask, torch.Tensor):
            raise TypeError(
                f"variables must be names, or functions by name such as {{'delta': lambda: delta}}; "
                f"{name!r} is a {type(ask).__name__}. A tensor itself would be kept alive and go stale."
            )
    return given


def _look_up(name: str) -> Any:
    """Return what the nearest of the calling functions means by `name`; PyTorch's own and ours are passed over."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith(("torch.", "backsight.")):
            if name in frame.f_locals:
                return frame.f_locals[name]
            if name in frame.f_globals:
                return frame.f_globals[name]
        frame = frame.f_back
    raise NameError(f"no function that was running at the end of the step has a variable {name!r}")
