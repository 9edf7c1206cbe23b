"""Calling one node, as `tape.calling` does it, with the errors of a walk."""

from __future__ import annotations

from typing import Any

import torch

from backsight.tape import calling
from backsight.walkthrough.errors import WalkError


def call(node: Any, gradients: calling.Gradients) -> tuple[torch.Tensor | None, ...]:
    """Return what the backward of `node` makes of `gradients`: one result for each of its `next_functions`."""
    try:
        return calling.call(node, gradients)
    except calling.BackwardRaises as error:
        raise WalkError(str(error)) from None


def fitted(gradient: torch.Tensor, node: Any, output: int) -> torch.Tensor:
    """Return `gradient` as the engine hands it to output number `output` of `node`."""
    try:
        return calling.fitted(gradient, node, output)
    except calling.BackwardRaises as error:
        raise WalkError(str(error)) from None
