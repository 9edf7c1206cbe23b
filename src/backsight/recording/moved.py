"""How far the weights move in a step for their size, by a sample of their elements: a copy of them all costs memory."""

from __future__ import annotations

from typing import NamedTuple

import torch

from backsight.recording.losses import Number, number
from backsight.snapshot import groups
from backsight.tape import is_captured, no_torch_dispatch
from backsight.tape.saved import is_readable

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
