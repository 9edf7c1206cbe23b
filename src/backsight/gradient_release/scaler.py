"""`torch.amp.GradScaler` together with gradient release: exact where gradients wait for the norm, refused elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch

from backsight.gradient_release._amp import CHECK_AND_UNSCALE, check_and_unscale, has_scaled, multipliers
from backsight.gradient_release._torch import PAST_TORCH_FUNCTION, wrapper
from backsight.gradient_release.errors import ReleaseError
from backsight.surface import require
from backsight.tape import alive


class Clipped(Protocol):
    """What is to be known of a release: whether its gradients wait until all of them have been looked at."""

    @property
    def clipping(self) -> Any:
        """How gradients are clipped; None if they are not."""


def refuse_undeclared(release: Clipped) -> None:
    """Refuse to step with gradients that a GradScaler multiplied, and has not looked at for an overflow.

    Any scaler that is enabled and has been used counts: which loss it scales cannot be seen from a gradient.

    Raises:
        ReleaseError: if there is one, and gradients do not wait for `scaler.step(optimizer)`, as they do with clipping.
    """
    if release.clipping is None and any(_used_scalers()):
        raise ReleaseError(
            "A GradScaler is in use: gradients stay scaled until it has checked all of them for overflow, and "
            "release would not wait for it. No weight was moved. Call release.clip(max_norm) before training, or "
            "release.clip(math.inf) to clip nothing: gradients then wait for scaler.step(optimizer). "
            "bfloat16 needs no scaler; delete one that is left over from another run."
        )


def refuse_scaled(loss: torch.Tensor) -> None:
    """Refuse a loss that a GradScaler multiplied, for a backward pass that does not know of it.

    Raises:
        ReleaseError: if it is.
    """
    scales = {scaler.get_scale() for scaler in _used_scalers()}
    if scales and any(float(number) in scales for number in multipliers(loss)):
        raise ReleaseError(
            "The loss was scaled by a GradScaler that release.backward(loss) does not know of. No weight was moved. "
            "Name it: release.backward(scaler.scale(loss), scaler=scaler)."
        )


def _used_scalers() -> Iterator[torch.amp.GradScaler]:
    return (each for each in alive(torch.amp.GradScaler) if each.is_enabled() and has_scaled(each))


def undo_scale(optimizer: Any, gradients: Sequence[torch.Tensor]) -> None:
    """Divide gradients by the scale that GradScaler leaves to the kernel of a fused optimizer.

    It does so where the loop does not call `scaler.unscale_`; a norm has to be that of the gradients themselves. On an
    overflow the kernel leaves all weights alone, as ever: `optimizer.found_inf` stays.
    """
    scale = getattr(optimizer, "grad_scale", None)
    if scale is None:
        return
    inverse = scale.double().reciprocal().float()
    for gradient in gradients:
        seen = torch.zeros((), device=gradient.device)
        check_and_unscale([gradient], seen, inverse.to(gradient.device))
    optimizer.grad_scale = None


class Unscaling:
    """What a GradScaler is to know after the first of two passes, whose gradients it does not get to see.

    Attributes:
        inverse: what gradients are multiplied by to undo the scale.
    """

    def __init__(self, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer):
        require("release with a gradient scaler")
        self.inverse = torch.tensor(scaler.get_scale(), dtype=torch.float64).reciprocal().float()
        self._scaler = scaler
        self._optimizer = optimizer
        self._found: dict[torch.device, torch.Tensor] = {}

    def check(self, gradient: torch.Tensor) -> None:
        """Unscale a gradient, and note an overflow, as `scaler.unscale_` does."""
        found = self._found.setdefault(gradient.device, torch.zeros((), device=gradient.device))
        check_and_unscale([gradient], found, self.inverse.to(gradient.device))

    def report(self, parameters: Sequence[torch.Tensor]) -> bool:
        """Tell the scaler what was found, through its own `unscale_`; return whether a gradient overflowed."""
        held = [parameter.grad for parameter in parameters]
        told: set[torch.device] = set()
        for parameter in parameters:
            found = None if parameter.device in told else self._found.get(parameter.device)
            parameter.grad = None if found is None else Verdict(parameter, found)
            told.add(parameter.device)
        try:
            self._scaler.unscale_(self._optimizer)
        finally:
            for parameter, gradient in zip(parameters, held, strict=True):
                parameter.grad = gradient
        return any(bool(found) for found in self._found.values())


class Verdict(torch.Tensor):
    """Stands in for the gradients on a device while a GradScaler asks them whether one overflowed."""

    __torch_function__ = PAST_TORCH_FUNCTION  # as PyTorch's own do

    found: torch.Tensor

    @staticmethod
    def __new__(cls, like: torch.Tensor, found: torch.Tensor) -> Verdict:
        made: Verdict = wrapper(cls, like)
        made.found = found
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # called on the class, with these
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is not CHECK_AND_UNSCALE:
            raise ReleaseError(
                f"{func} was called on gradients that are gone: GradScaler only knows whether they overflowed."
            )
        verdicts, found_inf, _ = args
        for verdict in verdicts:
            found_inf.copy_(torch.maximum(found_inf, verdict.found))
