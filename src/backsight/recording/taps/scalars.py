"""The numbers of a step that are about no tensor: losses, what optimizers are set to, how far the weights move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from backsight.recording.cost import Cost
from backsight.recording.groups import Groups
from backsight.recording.hook import Hook
from backsight.recording.losses import Losses, Number, number
from backsight.recording.notebook import Notebook
from backsight.recording.page import Page
from backsight.recording.taps.tap import Tap
from backsight.snapshot import groups
from backsight.tape import is_captured, no_torch_dispatch
from backsight.tape.saved import is_readable

Scalars = dict[int, dict[str, list[Number]]]
"""By step and name the values that make one number, their mean."""

MOVES = 16
"""How far the weights move is looked at in one recorded step of so many."""

EACH = 1 << 20
"""So many steps have their numbers all kept; then every second has, from twice as many on every fourth, and so on."""


def is_kept(step: int) -> bool:
    """Whether the losses and learning rates of a step are kept though nothing else of it is recorded.

    Of ten million steps 2.7 million have theirs, each four bytes, and with every doubling half a million more.
    """
    return not step & ((1 << max(0, (step // EACH).bit_length())) - 1)


class ScalarTap(Tap):
    """Takes what `backward()` is called on, and the numbers of the parameter groups that step.

    several: whether the program has several optimizers.
    met: called with what an optimizer is set to, when it first steps.
    loss: called with the name of a loss and its step, when it first comes.
    moves: whether to look how far the weights move.
    """

    name = "scalars"

    def __init__(
        self,
        notebook: Notebook,
        several: Callable[[], bool],
        met: Callable[[dict[str, Any]], None],
        loss: Callable[[str, int], None],
        *,
        moves: bool,
    ):
        super().__init__(notebook)
        self._losses, self._groups = Losses(), Groups(several, met)
        self._loss, self._known = loss, set[str]()
        self._moved = Moved() if moves else None
        self._ratios: list[Number] = []
        self._pages = 0
        # On its own account: each step pays for its loss, and to record fewer tensors would save nothing of that.
        notebook.backward_began = Hook(self._losses.began, self.fail, Cost())

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at an optimizer that is about to step, in a step that is not recorded."""
        self._losses.stepped(optimizer)
        self._groups.passing(optimizer)

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at an optimizer that has stepped, in a step that is not recorded."""
        self._losses.stepped(optimizer)

    def before_update(self, page: Page, optimizer: torch.optim.Optimizer | None) -> None:
        self._losses.stepped(optimizer)
        if optimizer is not None:
            self._groups.stepping(optimizer)
            if self._moved is not None and self._pages % MOVES == 0:
                self._moved.before(optimizer)

    def after_update(self, page: Page, optimizer: torch.optim.Optimizer) -> None:
        self._losses.stepped(optimizer)  # what its closure has called backward on
        if self._moved is not None and (ratio := self._moved.after()) is not None:
            self._ratios.append(ratio)

    def taken(self, step: int) -> Scalars:
        """Return what there is to write down as a step ends, of earlier ones too."""
        found: Scalars = {step: self._losses.taken()}
        self._tell_of_new(found[step], step)
        if self._ratios:
            found[step]["update_ratio"], self._ratios = self._ratios, []
        self._pages += 1
        for at, numbers in self._groups.taken(step).items():
            found.setdefault(at, {}).update({name: [value] for name, value in numbers.items()})
        return found

    def between(self, step: int) -> Scalars:
        """Return what there is to write down as a step ends that is not recorded."""
        if not is_kept(step):
            self._losses.forget()
            return {}
        found: Scalars = {}
        for at, numbers in self._groups.passed(step).items():
            found[at] = {name: [value] for name, value in numbers.items()}
        if losses := self._losses.taken():
            found.setdefault(step, {}).update(losses)
            self._tell_of_new(losses, step)
        return found

    def last(self) -> Scalars:
        """Return what is left to write down at the end."""
        return {step: {name: [value] for name, value in held.items()} for step, held in self._groups.last().items()}

    def forget(self) -> None:
        """Leave out what has come of a step that is not recorded."""
        self._losses.forget()
        self._ratios = []
        if self._moved is not None:
            self._moved.forget()

    def detach(self) -> None:
        super().detach()
        if self._moved is not None:
            self._moved.forget()

    def _tell_of_new(self, losses: Iterable[str], step: int) -> None:
        for name in losses:
            if name not in self._known:
                self._known.add(name)
                self._loss(name, step)


SAMPLE = 1024
"""Elements of a weight that are looked at, evenly spaced."""

MOST = 256
"""Weights that are looked at; of more, so many evenly."""


class _Sampled(NamedTuple):
    parameters: list[torch.Tensor]
    strides: list[int]
    values: torch.Tensor
    """The elements before the step, one after the other."""


class Moved:
    """The norm of the update over that of the weights, of what an optimizer holds: estimated, where all is plain.

    From a sample of their elements: a copy of them all costs memory.

    ```python
    moved = Moved()
    moved.before(optimizer)
    optimizer.step()
    moved.after()           # 0.0012
    ```
    """

    def __init__(self) -> None:
        self._sampled: _Sampled | None = None

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Keep a sample of the weights that are about to be updated."""
        self._sampled = None
        held = [each for group in groups(optimizer) for each in group["params"]]
        held = [each for each in held if each.requires_grad and each.grad is not None]
        held = held[:: -(-len(held) // MOST)] if held else []
        if not held or is_captured() or not all(map(_is_plain, held)) or len({each.device for each in held}) > 1:
            return
        strides = [-(-each.numel() // SAMPLE) for each in held]
        self._sampled = _Sampled(held, strides, _elements(held, strides))

    def forget(self) -> None:
        """Let go of weights whose step has not ended, as where it raised."""
        self._sampled = None

    def after(self) -> Number | None:
        """Return how far they have moved; None if nothing was kept, or the weights were replaced."""
        sampled, self._sampled = self._sampled, None
        if sampled is None or not all(map(_is_plain, sampled.parameters)):
            return None
        now = _elements(sampled.parameters, sampled.strides)
        if now.shape != sampled.values.shape:
            return None
        with torch.no_grad(), no_torch_dispatch():
            before, moved = sampled.values, now.sub_(sampled.values)
            counts = [-(-each.numel() // s) for each, s in zip(sampled.parameters, sampled.strides, strict=True)]
            if any(stride > 1 for stride in sampled.strides):  # each element stands for so many
                stands = torch.tensor(sampled.strides, dtype=now.dtype).repeat_interleave(torch.tensor(counts)).sqrt()
                stands = stands.to(now.device, non_blocking=True)
                before, moved = before * stands, moved * stands
            return number(torch.linalg.vector_norm(moved) / torch.linalg.vector_norm(before))


def _is_plain(tensor: torch.Tensor) -> bool:
    floating = tensor.is_floating_point() and tensor.element_size() > 1
    return floating and tensor.numel() > 0 and is_readable(tensor) and tensor.is_contiguous()


def _elements(tensors: list[torch.Tensor], strides: list[int]) -> torch.Tensor:
    with torch.no_grad(), no_torch_dispatch():
        return torch.cat([t.detach().view(-1)[::s].float() for t, s in zip(tensors, strides, strict=True)])
