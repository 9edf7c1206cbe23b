"""Inputs and outputs of modules, and the gradients of outputs: by forward hooks on each module."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch

from backsight.recording._torch import in_backward, in_ddp
from backsight.recording.hook import Hook
from backsight.recording.nested import Arguments, arguments_of, tensors_in
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, joined
from backsight.recording.page import Page, Slot
from backsight.recording.taps.tap import Tap
from backsight.recording.taps.weights import WeightTap

MOST_ORDER = 10_000
"""Entries of the order of modules that a step keeps."""


class CallTap(Tap):
    """Takes what modules are given and what they return.

    Calls without grad mode are evaluation: their kinds are "eval_input" and "eval_output", with calls counted on their
    own, so that they do not mix with the numbers of the training. A forward inside of a backward pass is a
    recomputation (checkpointing) and no call.
    """

    name = "input, output"

    def __init__(self, notebook: Notebook, observed: Observed, kinds: Collection[str], weights: WeightTap | None):
        super().__init__(notebook)
        self.observed = observed
        self.kinds = frozenset(kinds)
        self._weights = weights
        """Taken with the first module call of a step."""
        self._ddp = False
        self.started: Page | None = None
        self._modules: list[tuple[weakref.ref[torch.nn.Module], Hook, Hook]] = []

    def begin(self, page: Page) -> None:
        """Called with the first module call of a step."""
        self.started = page
        page.replicated = self._ddp or in_ddp()
        if self._weights is not None:
            self._weights.guarded(self._weights.first_call, page)

    def survey(self) -> None:
        self._ddp = self.observed.has_ddp()
        self._modules = []
        for name, module in self.observed.modules():
            if self.kinds or name in self.observed.models:
                calls = _Module(self, name)
                self._modules.append((weakref.ref(module), self.hook(calls.enter), self.hook(calls.leave)))

    def install(self) -> None:
        for reference, enter, leave in self._modules:
            if (module := reference()) is not None:
                self.keep(module.register_forward_pre_hook(enter, with_kwargs=True))
                if self.kinds:
                    self.keep(module.register_forward_hook(leave, with_kwargs=True))


class _Module:
    """One module's calls in the step under way."""

    def __init__(self, tap: CallTap, name: str):
        self.tap = tap
        self.name = name
        self._page: Page | None = None
        self._counts = [0, 0]
        """Calls with and without grad mode."""
        self._open: list[tuple[int, bool]] = []
        """Calls that have not returned, each with whether it is evaluation."""
        self._arguments: tuple[type, Arguments] | None = None
        self._slots: dict[tuple[str, str], Slot] = {}

    def enter(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        page = self.tap.notebook.open_page()
        if page is None or in_backward():
            return
        if self.tap.started is not page:
            self.tap.begin(page)
        if not self.tap.kinds:
            return
        if self._page is not page:
            self._page, self._counts, self._open = page, [0, 0], []
        evaluation = not torch.is_grad_enabled()
        call = self._counts[evaluation]
        self._counts[evaluation] += 1
        self._open.append((call, evaluation))
        self._ordered(page, "enter")
        if "input" in self.tap.kinds and not self.tap.notebook.full(call, self.name or "the model"):
            arguments = self._named(module)
            kind = "eval_input" if evaluation else "input"
            for position, value in enumerate(args):
                self._note(page, kind, call, arguments.name(position), value)
            for key, value in kwargs.items():
                self._note(page, kind, call, key, value)

    def leave(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        page = self.tap.notebook.open_page()
        if page is None or self._page is not page or not self._open or in_backward():
            return  # entered before recording began, or in a step that has ended since
        call, evaluation = self._open.pop()
        self._ordered(page, "leave")
        if self.tap.notebook.full(call, self.name or "the model"):
            return
        if "output" in self.tap.kinds:
            self._note(page, "eval_output" if evaluation else "output", call, "output", output)
        if "output_grad" in self.tap.kinds and not evaluation:
            for path, tensor in tensors_in(output, "output"):
                if tensor.requires_grad:
                    register: Any = tensor.register_hook  # which has no types
                    register(self.tap.hook(self._gradient_of(self._slot("output_grad", path), call)))

    def _gradient_of(self, slot: Slot, call: int) -> Callable[[torch.Tensor], None]:
        def take(gradient: torch.Tensor) -> None:
            page = self.tap.notebook.open_page()
            if page is not None and page is self._page:
                page.note(slot, call, gradient)

        return take

    def _note(self, page: Page, kind: str, call: int, path: str, value: Any) -> None:
        found: Iterable[tuple[str, torch.Tensor]]
        found = ((path, value),) if type(value) is torch.Tensor else tensors_in(value, path)
        for path, tensor in found:
            page.note(self._slot(kind, path), call, tensor)

    def _slot(self, kind: str, path: str) -> Slot:
        slot = self._slots.get((kind, path))
        if slot is None:
            slot = self._slots[kind, path] = Slot(joined(self.name, path), kind, self.name)
        return slot

    def _named(self, module: torch.nn.Module) -> Arguments:
        if self._arguments is None or self._arguments[0] is not type(module):  # a lazy module changes its type
            self._arguments = type(module), arguments_of(module)
        return self._arguments[1]

    def _ordered(self, page: Page, what: str) -> None:
        if len(page.order) < MOST_ORDER:
            page.order.append((what, self.name))
