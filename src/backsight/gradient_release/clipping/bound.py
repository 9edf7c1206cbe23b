"""To which norm gradients are clipped, in the arithmetic of `torch.nn.utils.clip_grad_norm_`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backsight.gradient_release.clipping._torch import by_device_and_dtype


@dataclass(frozen=True)
class Bound:
    """The largest norm that all gradients together may have: `max_norm`, of the order `norm_type`."""

    max_norm: float
    norm_type: float
    error_if_nonfinite: bool

    def norms(self, gradients: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the norm of each gradient; plain ones in one call, as `clip_grad_norm_` does."""
        found: list[Any] = [None] * len(gradients)
        plain = [at for at, gradient in enumerate(gradients) if type(gradient) is torch.Tensor]
        by_type: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for at in plain:
            by_type.setdefault((gradients[at].device, gradients[at].dtype), []).append(at)
        for places in by_type.values():
            norms = torch._foreach_norm([gradients[at] for at in places], self.norm_type)
            for at, norm in zip(places, norms, strict=True):
                found[at] = norm
        return [
            torch.linalg.vector_norm(gradient, self.norm_type) if norm is None else norm
            for norm, gradient in zip(found, gradients, strict=True)
        ]

    def total(self, norms: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the norm of all gradients, from the norm of that of each of `parameters`.

        Raises:
            RuntimeError: that of `clip_grad_norm_`, if the norm is not finite and that is to be an error.
        """
        if not norms:
            return torch.tensor(0.0)
        order = [at for places in by_device_and_dtype(parameters) for at in places]
        device = norms[0].device
        total: Any = torch.linalg.vector_norm(torch.stack([norms[at].to(device) for at in order]), self.norm_type)
        total = total.full_tensor() if hasattr(total, "full_tensor") else total  # sharded gradients
        if self.error_if_nonfinite and not bool(total.isfinite()):
            raise RuntimeError(
                f"The total norm of order {self.norm_type} for gradients is non-finite, so it cannot be clipped. No "
                "weight was moved. Set `error_if_nonfinite=False` to scale the gradients by it anyway."
            )
        return total  # type: ignore[no-any-return]  # a Tensor

    def coefficient(self, total: torch.Tensor) -> torch.Tensor | None:
        """Return what gradients are multiplied by, without asking the device for it; None if there is no bound."""
        if math.isinf(self.max_norm):
            return None
        return torch.clamp(self.max_norm / (total + 1e-6), max=1.0)


def scale(gradients: Sequence[torch.Tensor], coefficient: torch.Tensor) -> None:
    """Multiply gradients in place by a coefficient that may be on another device."""
    by_type: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for gradient in gradients:
        by_type.setdefault((gradient.device, gradient.dtype), []).append(gradient)
    for (device, _), each in by_type.items():
        torch._foreach_mul_(each, coefficient.to(device))
