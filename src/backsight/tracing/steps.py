"""What every optimizer step leaves behind: which graph is older than it, and which gradients it consumed."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from backsight.tape import next_sequence_number


@dataclass(frozen=True)
class Consumed:
    """A gradient as an optimizer step left it: the tensor, weakly, and the version that it had."""

    grad: weakref.ref[torch.Tensor]
    version: int


class StepLog:
    """The optimizer steps of a program: how many, the sequence number at the last, and the gradients it consumed.

    Only the last step of each optimizer is kept, with weak references: memory is bounded by the parameters.
    """

    def __init__(self) -> None:
        self.count = 0
        self.marks: dict[int, int] = {}
        """By thread: the sequence number at the last step. A node with a smaller one was made before that step."""
        self._consumed: weakref.WeakKeyDictionary[torch.optim.Optimizer, dict[int, Consumed]]
        self._consumed = weakref.WeakKeyDictionary()

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that `optimizer` has just stepped in this thread."""
        self.count += 1
        self.marks[threading.get_ident()] = next_sequence_number()
        self._consumed[optimizer] = {
            id(p): Consumed(weakref.ref(p.grad), version(p.grad)) for p in parameters(optimizer) if p.grad is not None
        }

    def is_stale(self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor, accumulated: int = 0) -> bool:
        """Whether the gradient of `parameter` is still the one that the last step consumed.

        `accumulated` backwards have added to it since, each of which counts as one change; zeroing would be one more.
        """
        consumed = self._consumed.get(optimizer, {}).get(id(parameter))
        grad = parameter.grad
        if consumed is None or grad is None or consumed.grad() is not grad:
            return False
        return version(grad) == consumed.version + accumulated


def parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters of all groups, in order."""
    groups: list[dict[str, Any]] = optimizer.param_groups
    return [p for group in groups for p in group["params"]]


def version(tensor: torch.Tensor) -> int:
    """Return how often the tensor was changed in place; -1 where that is not counted."""
    return -1 if tensor.is_inference() else tensor._version
