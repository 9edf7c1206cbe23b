"""`Clipping`: the state of a release whose gradients are clipped to a norm of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol

import torch

from backsight.gradient_release.clipping.bound import Bound, scale
from backsight.gradient_release.clipping.delivery import deliver
from backsight.gradient_release.clipping.gradient import FactoredGradient
from backsight.gradient_release.clipping.report import report
from backsight.gradient_release.clipping.taps import Taps
from backsight.gradient_release.errors import ReleaseError
from backsight.gradient_release.placeholder import Placeholder
from backsight.gradient_release.scaler import undo_scale

Method = Literal["auto", "two-pass", "factored"]

HOLDING, MEASURING, RELEASING = "holding", "measuring", "releasing"
"""What is done with gradients that arrive: they wait; their norms are taken; they go into the bucket."""


class Releasing(Protocol):
    """What clipping needs of a release."""

    optimizer: torch.optim.Optimizer
    peak_gradient_bytes: int

    def arrived(self, parameter: torch.Tensor) -> None:
        """Put the gradient of a parameter, which was held, into the bucket."""

    @property
    def accumulating(self) -> bool:
        """Whether gradients are those of earlier micro-batches."""


class Clipping:
    """How gradients are clipped, until it is closed; `print(release.clipping)` tells what is kept as factors and why.

    A gradient that arrives is held until `optimizer.step()`, where the norm of all of them is known; then they are
    stepped a bucket at a time. What makes that cheap is that weights of linear layers and embeddings keep two factors
    instead. In two passes, a gradient is measured and freed, and comes a second time.

    Attributes:
        bound: the norm to which gradients are clipped.
        method: how, as given.
        norms: of each gradient of the step, before clipping, by the `id` of its parameter.
        total_norm: of all of them, before clipping, on the device of the first; None before the first step.
    """

    def __init__(self, release: Releasing, bound: Bound, method: Method):
        self.bound = bound
        self.method = method
        self.norms: dict[int, torch.Tensor] = {}
        self.total_norm: torch.Tensor | None = None
        self.phase = HOLDING
        self.measure: Callable[[torch.Tensor], None] | None = None
        self.taps: Taps | None = None
        self.kept_bytes = 0
        self._release = release
        self._ours: set[int] = set()
        self._coefficients: list[torch.Tensor] = []
        self._scaled: set[int] = set()
        self._decided = False
        self.after_step()
        if method != "two-pass":
            self.taps = Taps(self._is_ours)

    def parameters(self) -> Iterator[torch.Tensor]:
        """Iterate over the optimizer's parameters, in its order."""
        return (each for group in self._release.optimizer.param_groups for each in group["params"])

    def holds(self, parameter: torch.Tensor) -> bool:
        """Whether a gradient that has arrived is not to be put into the bucket now; measures it if that is the phase.

        Raises:
            ReleaseError: if the norm is to be found by a pass of its own, and this is another.
        """
        if self.phase == RELEASING:
            return False
        if self.measure is not None:
            self.measure(parameter)
        elif self.method == "two-pass" and not self._release.accumulating:
            raise ReleaseError(
                "Clipping by two passes needs to call both: write release.backward(loss) instead of loss.backward(). "
                "No weight was moved. (release.clip(max_norm, method='factored') works with loss.backward().)"
            )
        return True

    def before_step(self) -> None:
        """Find the norm, and step everything but the last bucket, which the optimizer's own step is left with."""
        if not self._decided:
            holders = [each for each in self.parameters() if _is_there(each.grad)]
            self.kept_bytes = sum(_alive(each.grad) for each in holders)
            self._release.peak_gradient_bytes = max(self._release.peak_gradient_bytes, self.kept_bytes)
            undo_scale(self._release.optimizer, [each.grad for each in holders if each.grad is not None])
            self.decide(holders, self.bound.norms([each.grad for each in holders if each.grad is not None]))
        self.release_held()

    def decide(
        self, parameters: Sequence[torch.Tensor], norms: Sequence[torch.Tensor], unscale: torch.Tensor | None = None
    ) -> None:
        """Settle what the gradients of this step, whose norms are known, are multiplied by; first by `unscale`."""
        self.norms = {id(parameter): norm for parameter, norm in zip(parameters, norms, strict=True)}
        self.total_norm = self.bound.total(norms, parameters)
        coefficient = self.bound.coefficient(self.total_norm)
        self._coefficients = [each for each in (unscale, coefficient) if each is not None]
        self._decided = True

    def release_held(self) -> None:
        """Put what was held into the bucket: dense gradients first, which are there, then those of factors."""
        held = [each for each in self.parameters() if id(each) not in self._scaled and _is_there(each.grad)]
        self.phase = RELEASING
        try:
            for parameter in held:
                gradient = parameter.grad
                if gradient is not None and type(gradient) is not FactoredGradient and not gradient.requires_grad:
                    self._release.arrived(parameter)
            deliver([each for each in held if type(each.grad) is FactoredGradient])
        finally:
            self.phase = HOLDING

    def scale(self, parameters: Sequence[torch.Tensor]) -> None:
        """Clip the gradients of parameters that are about to be stepped, each once."""
        fresh = [each for each in parameters if id(each) not in self._scaled]
        gradients = [each.grad for each in fresh if each.grad is not None]
        with torch.no_grad():
            for coefficient in self._coefficients:
                scale(gradients, coefficient)
        self._scaled.update(id(each) for each in fresh)

    @contextmanager
    def with_dense_gradients(self) -> Iterator[None]:
        """Within this, nothing is kept as factors."""
        if self.taps is not None:
            self.taps.passes.factoring = False
        try:
            yield
        finally:
            if self.taps is not None:
                self.taps.passes.factoring = True

    def after_step(self) -> None:
        """Begin the next step."""
        self._decided = False
        self._coefficients = []
        self._scaled = set()
        self._ours = {id(each) for each in self.parameters()}

    def close(self) -> None:
        """Leave layers alone; gradients that are there become ordinary ones."""
        if self.taps is not None:
            self.taps.close()
        for parameter in self.parameters():
            if type(parameter.grad) is FactoredGradient:
                parameter.grad = parameter.grad.densify()

    def __repr__(self) -> str:
        return f"<Clipping to norm {self.bound.max_norm:g} of order {self.bound.norm_type:g}, {self.method}>"

    def __str__(self) -> str:
        return report(self, self._release.optimizer)

    def _is_ours(self, weight: torch.Tensor) -> bool:
        return id(weight) in self._ours


def _is_there(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and type(gradient) is not Placeholder


def _alive(gradient: torch.Tensor | None) -> int:
    """Return the bytes of a gradient, or of its factors."""
    if gradient is None:
        return 0
    if type(gradient) is FactoredGradient and gradient.factors:
        return sum(factor.nbytes for factor in gradient.factors)
    return gradient.numel() * gradient.element_size()
