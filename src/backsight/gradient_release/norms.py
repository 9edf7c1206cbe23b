"""The norms of the gradients of a step, taken before they are freed."""

from __future__ import annotations

from typing import Any

import torch

from backsight.gradient_release._torch import is_sharded

SMALL = 64 * 1024
"""Bytes of gradients, of all parameters together, that may be kept until the next step to be read on demand."""


Kept = tuple[torch.Tensor, torch.Tensor, int]
"""A parameter, its gradient, and the version that the gradient had."""


class Norms:
    """The 2-norm of each gradient of a step, by the `id` of its parameter.

    Nothing waits for the device: a norm is a tensor without a dimension, on the device of its gradient.

    Args:
        small: gradients, `SMALL` bytes at most, whose norms are taken if somebody asks. For a model of a few small
            tensors even one call for all norms would cost a few per cent of its step.

    Attributes:
        absorbed: whether these are the norms of only the last part of sums.
        small: gradients whose norms are taken on demand.
    """

    def __init__(self, small: list[Kept] | None = None) -> None:
        self.absorbed = False
        self._norms: dict[int, torch.Tensor] = {}
        self.small = [] if small is None else small

    def take(self, parameters: list[int], gradients: list[torch.Tensor]) -> dict[int, torch.Tensor]:
        """Take the norms of gradients that are about to be freed; return all that were taken so far."""
        self._norms.update(zip(parameters, norms_of(gradients), strict=True))
        return self._norms

    def empty(self) -> bool:
        """Whether there was no gradient."""
        return not (self._norms or self.small)

    def keeps(self, gradient: torch.Tensor) -> bool:
        """Whether this very gradient was kept."""
        return any(kept is gradient for _, kept, _ in self.small)

    def whole(self) -> bool:
        """Whether the norms are known: none was overwritten before it was taken, nor is of a part of a sum."""
        lost = any(g._version != version and id(each) not in self._norms for each, g, version in self.small)
        return not lost and not self.absorbed

    def each(self) -> dict[int, torch.Tensor]:
        """Return all norms of the step; of gradients that were kept and overwritten since there is none."""
        left = {id(p): g for p, g, version in self.small if id(p) not in self._norms and g._version == version}
        if left:
            self.take(list(left), list(left.values()))
        return self._norms


class NormsOfSteps:
    """The norms of the step under way, and those of the last one.

    Attributes:
        now: those of the step under way.
    """

    def __init__(self) -> None:
        self.now = Norms()
        self._last = Norms()
        self._kept: list[Kept] = self._last.small

    @property
    def last(self) -> Norms:
        """The norms of the last step."""
        if self._last.small is not self._kept:
            self._last = Norms(self._kept)
        return self._last

    def keep(self, small: list[Kept]) -> list[Kept]:
        """Keep the few small gradients of a step, whose norms nobody may ask for; return those that were kept before.

        This is all that a small model pays for.
        """
        earlier, self._kept = self._kept, small
        return earlier

    def keep_none(self) -> None:
        """Take the norms of what is kept, and let it go."""
        last = self.last
        last.each()
        self._kept = last.small = []

    def turn(self, absorbed: bool) -> None:
        """Begin the next step."""
        self.now.absorbed = absorbed
        if not self.now.empty():  # else this is the step of a class that calls its base's, which had hooks as well
            self._last, self.now = self.now, Norms()
            self._kept = self._last.small

    def abandon(self) -> None:
        """Forget the step under way."""
        self.now = Norms()


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
    with torch.no_grad():
        total: Any = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms]))
    whole: torch.Tensor = total.full_tensor() if is_sharded(total) else total
    return whole


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    """Return the values of a sparse gradient, each index once."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient
