"""The norms of the gradients of a step, taken before they are freed."""

from __future__ import annotations

import torch

SMALL = 64 * 1024
"""Bytes of gradients, of all parameters that `optimizer.step()` itself steps, that may be kept to be read on demand."""


class Norms:
    """The 2-norm of each gradient of a step, by the `id` of its parameter.

    Nothing waits for the device: a norm is a tensor without a dimension, on the device of its gradient.
    """

    def __init__(self) -> None:
        self.whole = True
        """Whether these are the norms of whole gradients, and not of the last part of a sum."""
        self._norms: dict[int, torch.Tensor] = {}
        self._small: list[tuple[int, torch.Tensor, int]] = []

    def take(self, parameters: list[int], gradients: list[torch.Tensor]) -> list[torch.Tensor]:
        """Take and return the norms of gradients that are about to be freed."""
        norms = norms_of(gradients)
        self._norms.update(zip(parameters, norms, strict=True))
        return norms

    def keep(self, parameters: list[int], gradients: list[torch.Tensor]) -> None:
        """Keep gradients, at most `SMALL` bytes of them, whose norms are taken if somebody asks.

        For a model of a few small tensors even one call for all norms would cost a few per cent of its step.
        """
        self._small = [(p, g, g._version) for p, g in zip(parameters, gradients, strict=True)]

    def overwritten(self) -> bool:
        """Whether a gradient that was kept has been written to, so that its norm is lost."""
        return any(gradient._version != version for _, gradient, version in self._small)

    def each(self) -> dict[int, torch.Tensor]:
        """Return all norms of the step; of gradients that were kept and overwritten since there is none."""
        if self._small:
            kept = [(p, g) for p, g, version in self._small if g._version == version]
            self._small = []
            if kept:
                self.take([p for p, _ in kept], [g for _, g in kept])
        return self._norms


def norms_of(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the 2-norm of each gradient, the same bits that `torch.nn.utils.clip_grad_norm_` begins with."""
    with torch.no_grad():
        if any(gradient.is_sparse for gradient in gradients):
            return [torch.linalg.vector_norm(_dense(gradient)) for gradient in gradients]
        return list(torch._foreach_norm(gradients))


def total_norm(norms: list[torch.Tensor]) -> torch.Tensor:
    """Return the 2-norm of all gradients together, from the norm of each.

    Source: `torch.nn.utils.get_total_norm`, of which it has the same bits if the order is the same. Norms of sharded
    gradients (DTensor) are gathered, which every rank has to take part in.
    """
    if not norms:
        return torch.tensor(0.0)
    whole = [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]
    with torch.no_grad():
        return torch.linalg.vector_norm(torch.stack([norm.to(whole[0].device) for norm in whole]))


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    """Return the values of a sparse gradient, each index once."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient
