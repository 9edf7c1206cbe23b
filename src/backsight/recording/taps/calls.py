"""Inputs and outputs of modules, and the gradients of outputs: by forward hooks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from typing import Any

import torch

from backsight.recording._torch import in_ddp, in_functional_call, is_script
from backsight.recording.module_calls import ModuleCalls
from backsight.recording.nested import Arguments, arguments_of, tensors_in
from backsight.recording.notebook import Notebook
from backsight.recording.observed import Observed, joined
from backsight.recording.page import Page, Slot
from backsight.recording.taps.tap import Tap
from backsight.recording.taps.weights import WeightTap
from backsight.tape import backward_number, unnumbered

KINDS = ("input", "output", "output_grad", "eval_input", "eval_output")
"""The kinds of rows that come from calls."""

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
        self.takes_inputs = "input" in self.kinds
        self._weights = weights
        """Taken with the first call of a step that trains."""
        self._ddp = False
        self.started: Page | None = None
        """The page of a step in which a call that trains was seen."""
        self._calls = ModuleCalls(notebook, self.fail)
        self._known: dict[str, tuple[weakref.ref[torch.nn.Module], _Module]] = {}

    def begin(self, page: Page) -> None:
        """Take what is taken once, at a call of a module: evaluation may use other weights, as an average of them."""
        if not torch.is_grad_enabled() or in_functional_call():
            return
        self.started = page
        if self.notebook.first_call is not None:
            self.notebook.first_call()
        page.replicated = self._ddp or in_ddp()
        if self._weights is not None:
            self._weights.guarded(self._weights.first_call, page)

    def survey(self) -> None:
        self._ddp = self.observed.has_ddp()
        taken, before, self._known = [], self._known, {}
        for name, module in self.observed.modules():
            if is_script(module):  # whose inner calls are not Python's
                continue
            if self.kinds or name in self.observed.models:
                held, calls = before.get(name, (None, None))
                if held is None or calls is None or held() is not module:  # else a call of it may be under way
                    held, calls = weakref.ref(module), _Module(self, name)
                self._known[name] = held, calls
                taken.append((module, calls.enter, calls.leave if self.kinds else None))
        self._calls.choose(taken)

    def install(self) -> None:
        self._calls.attach()

    def detach(self) -> None:
        super().detach()
        self._calls.detach()

    def entered(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._calls.entered(module, args, kwargs)


class _Module:
    """One module's calls in the step under way."""

    def __init__(self, tap: CallTap, name: str):
        self.tap = tap
        self.notebook = tap.notebook
        self.name = name
        self._page: Page | None = None
        self._counts = [0, 0]
        """Calls with and without grad mode."""
        self._open: list[tuple[int, bool]] = []
        """Calls that have not returned, each with whether it is evaluation."""
        self._type: type | None = None
        """The type of the module that the arguments are known of; a lazy module changes it."""
        self._arguments = Arguments((), None)
        self._slots: dict[str, dict[str, Slot]] = {kind: {} for kind in KINDS}
        self._entered, self._left = ("enter", name), ("leave", name)

    def enter(self, page: Page, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tap = self.tap
        if backward_number() != -1:
            return
        if tap.started is not page:
            tap.begin(page)
        if not tap.kinds:
            return
        if self._page is not page:
            self._page, self._counts, self._open = page, [0, 0], []
        evaluation = not torch.is_grad_enabled()
        call = self._counts[evaluation]
        self._counts[evaluation] = call + 1
        self._open.append((call, evaluation))
        if len(page.order) < MOST_ORDER:
            page.order.append(self._entered)
        if tap.takes_inputs and (call < self.notebook.calls or not self._full(call)):
            self._note_inputs(page, "eval_input" if evaluation else "input", call, module, args, kwargs)

    def _note_inputs(
        self, page: Page, kind: str, call: int, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if self._type is not type(module):
            self._type, self._arguments = type(module), arguments_of(module)
        names, slots = self._arguments.names, self._slots[kind]
        for position, value in enumerate(args):
            path = names[position] if position < len(names) else self._arguments.name(position)
            if type(value) is torch.Tensor:
                page.note(slots.get(path) or self._slot(kind, path), call, value)
            else:
                self._note_inside(page, kind, call, path, value)
        for path, value in kwargs.items():
            self._note_inside(page, kind, call, path, value)

    def leave(self, page: Page, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._page is not page or not self._open or backward_number() != -1:
            return  # entered before recording began, or in a step that has ended since
        call, evaluation = self._open.pop()
        if len(page.order) < MOST_ORDER:
            page.order.append(self._left)
        if call >= self.notebook.calls and self._full(call):
            return
        kinds = self.tap.kinds
        if "output" in kinds:
            kind = "eval_output" if evaluation else "output"
            if type(output) is torch.Tensor:
                page.note(self._slots[kind].get("output") or self._slot(kind, "output"), call, output)
            else:
                self._note_inside(page, kind, call, "output", output)
        if "output_grad" in kinds and not evaluation:
            for path, tensor in tensors_in(output, "output"):
                if tensor.requires_grad:
                    register: Any = tensor.register_hook  # which has no types
                    with unnumbered():
                        register(self.tap.hook(self._gradient_of(self._slot("output_grad", path), call)))

    def _full(self, call: int) -> bool:
        return self.notebook.full(call, self.name or "the model")

    def _gradient_of(self, slot: Slot, call: int) -> Callable[[Page, torch.Tensor], None]:
        def take(page: Page, gradient: torch.Tensor) -> None:
            if page is self._page:
                page.note(slot, call, gradient)

        return take

    def _note_inside(self, page: Page, kind: str, call: int, path: str, value: Any) -> None:
        for inner, tensor in tensors_in(value, path):
            page.note(self._slot(kind, inner), call, tensor)

    def _slot(self, kind: str, path: str) -> Slot:
        slots = self._slots[kind]
        if path not in slots:
            slots[path] = Slot(joined(self.name, path), kind, self.name)
        return slots[path]
