"""Gradients of earlier micro-batches: kept until the last one, or taken up by the momentum."""

from __future__ import annotations

from typing import Any

import torch

from backsight.gradient_release.errors import NotReleasable


class MomentumAccumulation:
    """Adds gradients of earlier micro-batches to the momentum of SGD, so that no memory is needed for their sum.

    The last micro-batch makes of a momentum b, as ever, m b + (1 - d) g, with momentum m and dampening d. Adding
    (1 - d) / m times an earlier gradient to b before gives what the sum of both gradients would, up to rounding.

    Raises:
        NotReleasable: if the optimizer is another than SGD with momentum and without Nesterov's.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        groups = optimizer.param_groups
        if type(optimizer) is not torch.optim.SGD or any(
            not group["momentum"] or group["nesterov"] for group in groups
        ):
            raise NotReleasable(
                "accumulate(into='momentum') is exact for torch.optim.SGD with momentum and without nesterov, not for "
                f"{_told(optimizer)}: there the sum of all gradients is needed. `release.accumulate()` keeps it."
            )
        self._optimizer = optimizer

    def take(self, parameter: torch.Tensor, group: dict[str, Any]) -> bool:
        """Add the gradient of a parameter to its momentum; return whether that was possible, and it can be freed."""
        gradient, state = parameter.grad, self._optimizer.state[parameter]
        momentum, dampening = group["momentum"], group["dampening"]
        buffer = state.get("momentum_buffer")
        if gradient is None or gradient.is_sparse or (buffer is None and (dampening or group["fused"])):
            return False  # the first step of SGD takes the sum itself for its momentum
        share = (-1.0 if group["maximize"] else 1.0) * (1.0 - dampening) / momentum
        with torch.no_grad():
            if buffer is None:
                state["momentum_buffer"] = gradient * share
            else:
                buffer.add_(gradient, alpha=share)
        return True


def _told(optimizer: torch.optim.Optimizer) -> str:
    kind = type(optimizer).__name__
    if type(optimizer) is not torch.optim.SGD:
        return kind
    settings = ", ".join(f"{name}={optimizer.param_groups[0][name]}" for name in ("momentum", "nesterov"))
    return f"{kind} with {settings}"
