"""Clipping by two backward passes: the first finds the norm, the second steps with clipped gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from backsight.gradient_release.clipping.clipping import HOLDING, MEASURING, RELEASING, Clipping
from backsight.gradient_release.errors import AlreadyStepped
from backsight.gradient_release.scaler import Unscaling


def two_passes(
    clipping: Clipping,
    loss: torch.Tensor,
    gradient: torch.Tensor | None,
    retain_graph: bool,
    unscaling: Unscaling | None,
) -> None:
    """Run `loss.backward()` twice; the forward is not run again, and hooks of the user fire in both passes.

    With `unscaling`, gradients are divided by GradScaler's scale before they are clipped, and if one overflows there is
    no second pass.
    """
    parameters = [each for each in clipping.parameters() if each.requires_grad]
    first = FirstPass(clipping, unscaling)
    with clipping.with_dense_gradients():
        with first.over(parameters):
            torch.autograd.backward(loss, gradient, retain_graph=True)
        measured = [each for each in parameters if id(each) in first.norms]
        norms = [first.norms[id(each)] for each in measured]
        if unscaling is not None and unscaling.report(measured):
            clipping.decide(measured, norms)
            clipping.after_step()  # there is none
            for parameter in measured:
                parameter.grad = None
            return
        clipping.decide(measured, norms, None if unscaling is None else unscaling.inverse)
        clipping.phase = RELEASING
        try:
            torch.autograd.backward(loss, gradient, retain_graph=retain_graph)
        finally:
            clipping.phase = HOLDING
    clipping.release_held()  # what earlier micro-batches left and this one did not reach


class FirstPass:
    """Measures and frees each gradient of a pass, added to what earlier micro-batches have left."""

    def __init__(self, clipping: Clipping, unscaling: Unscaling | None):
        self.norms: dict[int, torch.Tensor] = {}
        self._earlier: dict[int, torch.Tensor] = {}
        self._clipping = clipping
        self._unscaling = unscaling

    @contextmanager
    def over(self, parameters: list[torch.Tensor]) -> Iterator[None]:
        """Within this, gradients that arrive are measured; those of earlier micro-batches are put aside meanwhile."""
        clipping = self._clipping
        self._earlier = {id(each): each.grad for each in parameters if each.grad is not None}
        for parameter in parameters:
            parameter.grad = None
        clipping.phase, clipping.measure = MEASURING, self.measure
        try:
            yield
            for parameter in parameters:
                earlier = self._earlier.get(id(parameter))
                if earlier is not None and id(parameter) not in self.norms:
                    self._take(parameter, earlier.clone())
        finally:
            clipping.phase, clipping.measure = HOLDING, None
            for parameter in parameters:
                parameter.grad = self._earlier.get(id(parameter))

    def measure(self, parameter: torch.Tensor) -> None:
        """Take the norm of a gradient that has just arrived, and free it."""
        gradient = parameter.grad
        if gradient is None:
            return
        if id(parameter) in self.norms:
            raise AlreadyStepped(
                f"A parameter of shape {tuple(parameter.shape)} gets its gradient in two parts within one backward "
                "pass, and neither part gives the norm. Use checkpoint(..., use_reentrant=False), or "
                "release.clip(max_norm, method='factored'). No weight was moved."
            )
        earlier = self._earlier.get(id(parameter))
        with torch.no_grad():
            self._take(parameter, gradient if earlier is None else gradient.add_(earlier))
        parameter.grad = None

    def _take(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        if self._unscaling is not None:
            self._unscaling.check(gradient)
        (self.norms[id(parameter)],) = self._clipping.bound.norms([gradient])
