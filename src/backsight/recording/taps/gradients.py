"""Gradients of parameters: as they arrive, by the hook that PyTorch calls then, and as all ranks of DDP share them."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.compiler import is_compiling

from backsight.recording._torch import (
    drop_empty_hooks,
    gradient_hooks,
    new_hook_key,
    when_backward_ends,
)
from backsight.recording.held import HeldPlace, parameters_of
from backsight.recording.hook import Hook
from backsight.recording.notebook import Notebook, PageHook
from backsight.recording.observed import Observed, Place
from backsight.recording.page import Entry, Page, Slot
from backsight.recording.taps.tap import Tap
from backsight.tape import backward_number, in_backward, is_captured, uncompiled, version

SMALL = 64 * 1024
"""Bytes of a gradient that may wait for the end of the backward pass, to be read together with others."""

MOST_WAITING = 1024 * 1024
"""Bytes of gradients that wait."""

_Waiting = tuple[Page, Slot, int, torch.Tensor, int]


class GradientTap(Tap):
    """Takes `parameter.grad` each time that a backward pass has added to it; the call is which time in this step.

    So a gradient is seen even where it is freed inside of the backward pass. Under gradient accumulation the last call
    is the sum that the optimizer gets. Clipping and unscaling come later and are not in these rows. A gradient that was
    put there by hand is taken before the optimizer that holds the parameter steps. One left over from an earlier step,
    to which nothing was written since, is not taken again. Nor is one that was there before the hook, in the midst of
    a step: it may have been clipped by then.

    Small gradients are held to the end of the backward pass and read together, unless somebody else has a hook there,
    which may write to them. Where one was overwritten by then it is left out, and from there on every gradient is read
    at once.
    """

    name = "grad"

    def __init__(self, notebook: Notebook, observed: Observed):
        super().__init__(notebook)
        self.observed = observed
        self._parameters: list[_Parameter] = []
        self._hooked: list[_Parameter] = []
        self._key = new_hook_key()
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._backward = self._pass = -1
        self._first: dict[_Parameter, None] = {}
        """Those whose gradient was the first of a backward pass, in the last recorded step that had one."""
        self._page: Page | None = None
        self._at_once = False
        self._end = Hook(self._read_waiting, self.fail, notebook.cost)

    def survey(self) -> None:
        known = {(each.place.name, each.of): each for each in self._parameters}
        found = ((place, id(place.tensor())) for place in self.observed.places("_parameters"))
        self._parameters = [known.get((place.name, of)) or _Parameter(self, place, of) for place, of in found]

    def attach(self) -> None:
        """Install the hooks that are missing: those that are there know what has arrived in the step under way."""
        self.guarded(self.install)

    def install(self) -> None:
        here = set(self._parameters)
        self._unhook([each for each in self._hooked if each not in here])
        self._hooked = []
        for each in self._parameters:
            tensor = each.place.tensor()
            if tensor is not None and tensor.requires_grad and tensor.is_leaf:
                each.install(tensor, self._key)
                self._hooked.append(each)

    def keep_first(self) -> None:
        """Install the hooks of the parameters whose gradients come first in a backward pass, while others are away."""
        for each in self._first:
            tensor = each.place.tensor()
            if tensor is not None and tensor.requires_grad and tensor.is_leaf:
                each.install(tensor, self._key)
                self._hooked.append(each)

    def detach(self) -> None:
        super().detach()
        self._waiting, self._bytes = [], 0
        hooked, self._hooked = self._hooked, []
        self._unhook(hooked)

    def _unhook(self, hooked: list[_Parameter]) -> None:
        for each in hooked:
            each.hooks.pop(self._key, None)
        if not in_backward() and _alone():  # nobody is walking through the tables
            for each in hooked:
                if (tensor := each.place.tensor()) is not None:
                    drop_empty_hooks(tensor)

    def take(self, page: Page, of: _Parameter, call: int, gradient: torch.Tensor, at: int | None) -> None:
        """Take a gradient that has just arrived, at this version."""
        size = gradient.nbytes if gradient.layout == torch.strided else SMALL + 1  # others do not tell
        backward, slot = backward_number(), of.slot
        if backward != self._pass:
            self._pass = backward
            if self._page is not page:
                self._page, self._first = page, {}
            self._first[of] = None
        at_once = self._at_once or len(of.hooks) > 1
        if size > SMALL or backward == -1 or at_once or at is None or when_backward_ends is None:
            page.note(slot, call, gradient)
            return
        if backward != self._backward:
            self._backward = backward
            when_backward_ends(self._end)
        self._waiting.append((page, slot, call, gradient, at))
        self._bytes += size
        if self._bytes > MOST_WAITING:
            self._read_waiting()

    def before_update(self, page: Page, optimizer: torch.optim.Optimizer | None) -> None:
        """Take the gradients that are there without having arrived.

        Of several optimizers each one's own: to the others' something may yet be added, and they were used before.
        """
        self._read_waiting()  # of a backward pass that raised
        missing = [each for each in self._parameters if each.page is not page]
        if not missing:
            return
        held = None if optimizer is None else parameters_of(optimizer)
        entries: list[Entry] = []
        for each in missing:
            tensor = each.place.tensor()
            if tensor is None or not tensor.is_leaf or (held is not None and id(tensor) not in held):
                continue
            gradient = tensor.grad
            if gradient is not None and each.unseen is not page and not each.took(gradient):
                each.page, each.count, each.last = page, 1, None
                entries.append((each.slot, 0, gradient))
        page.note_all(entries)

    def _read_waiting(self) -> None:
        self._backward = -1
        if not self._waiting:
            return
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        page = self.notebook.page
        entries: list[Entry] = []
        for of, slot, call, gradient, then in waiting:
            if gradient._version != then:
                self._at_once = True
            elif of is page:
                entries.append((slot, call, gradient))
        if page is not None:
            page.note_all(entries)


def _alone() -> bool:
    """Whether there is no thread of the program beside this one, which may be in a backward pass."""
    own = threading.current_thread()
    return all(each is own or each.name.startswith("backsight") for each in threading.enumerate())


class _ArrivalHook(PageHook):
    """Notes that a gradient has arrived, also where no page is written: steps may be counted by backward passes."""

    __slots__ = ()

    @uncompiled
    def __call__(self, *args: Any) -> None:
        if not is_compiling():
            self._notebook.arrive(args[0])
        super().__call__(*args)


class _Parameter:
    """One parameter's gradients in the step under way."""

    def __init__(self, tap: GradientTap, place: Place | HeldPlace, of: int):
        self.tap = tap
        self.place = place
        self.of = of
        """The id of the tensor that was in this place when it was found."""
        self.slot = Slot(place.name, "grad", place.owner)
        self.hook = _ArrivalHook(tap.notebook, self.arrived, tap.fail)
        self.hooks: dict[int, Any] = {}
        """Everybody's hooks on the gradient of this parameter."""
        self.met = False
        """Whether the hook has ever been there."""
        self.page: Page | None = None
        self.unseen: Page | None = None
        """The page of a step in which a gradient was there before the hook: it may be another than backward made."""
        self.count = 0
        self.last: tuple[int, int | None] | None = None
        """The gradient that arrived last, by id, and its version then: a weak reference would hinder `swap_tensors`."""

    def install(self, tensor: torch.Tensor, key: int) -> None:
        """Install the hook before all others, unless it is there: those may step an optimizer, or free the gradient."""
        self.hooks = gradient_hooks(tensor)
        if self.hooks.get(key) is self.hook:
            return
        others = dict(self.hooks)
        self.hooks.clear()
        self.hooks.update({key: self.hook, **others})
        first, self.met = not self.met, True
        # Of one met before no gradient is looked at: backward may be writing there in the thread that trains it.
        if not self.tap.notebook.between and (not first or tensor.grad is not None):
            self.unseen = self.tap.notebook.page

    def took(self, gradient: torch.Tensor) -> bool:
        """Whether this is the gradient that arrived last, and nothing has been written to it since."""
        return self.last is not None and self.last == (id(gradient), version(gradient))

    def arrived(self, page: Page, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if gradient is None:  # freed by a hook that came before
            return
        if self.page is not page:
            self.page, self.count = page, 0
        call, self.count = self.count, self.count + 1
        at = version(gradient)
        self.last = id(gradient), at
        notebook = self.tap.notebook
        if call < notebook.calls or not notebook.full(call, self.slot.name):
            self.tap.take(page, self, call, gradient, at)


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
