"""Averaging of gradients over ranks, before they are used."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Averaging:
    """What a release asks whoever averages its gradients; this is the answer of a single rank, where nobody does.

    Attributes:
        over_ranks: whether gradients are averaged.
        has_buckets: whether that is done in buckets of its own, and parameters are stepped when it says so.
    """

    over_ranks = False
    has_buckets = False

    @property
    def ddp(self) -> torch.nn.Module | None:
        """The DistributedDataParallel that averages, if one does."""
        return None

    def average(self, parameters: Sequence[torch.Tensor]) -> None:
        """Average the gradients of parameters that are about to be stepped, each once a step."""

    def turn(self) -> None:
        """Begin the next step."""

    def close(self) -> None:
        """Leave gradients alone from now on."""
