"""Where a step ends that no optimizer of PyTorch makes: the program writes to its parameters itself."""

from __future__ import annotations

import torch

from backsight.tape import in_backward, next_sequence_number, storage_key
from backsight.traces.arguments import taken_apart, written
from backsight.traces.lines import place_here
from backsight.traces.mode import Call
from backsight.traces.records import Place


class Updates:
    """Follows the operations of a step to where the next one begins.

    A step is over once there was a backward pass, parameters that its forward pass used were written to, and something
    is computed with gradients again: where all of them were written to, the next such operation begins a step; where
    only some were, as of two networks in turn, the line does that the step began at.
    """

    def __init__(self) -> None:
        self.newest = next_sequence_number() - 1
        """The newest node of autograd, as of the last operation."""
        self.without_module = False
        """Whether anything was computed with gradients from a tensor that is no parameter of a module."""
        self._begun = False
        self._first = Place()
        self._restart()

    def _restart(self) -> None:
        self._used: set[int] = set()
        self._written: set[int] = set()
        self._backward = self._recording = False

    @property
    def updated(self) -> bool:
        """Whether parameters were written to since the backward pass."""
        return bool(self._written)

    @property
    def updating(self) -> bool:
        """Whether the backward pass is over, so that what is computed without gradients belongs to an update."""
        return self._backward

    @property
    def all_updated(self) -> bool:
        """Whether every parameter that the forward pass used was written to."""
        return self.updated and self._used <= self._written

    def restart(self) -> None:
        """Begin a step here."""
        self._restart()

    def look(self, call: Call, grad: bool) -> bool:
        """Look at an operation before it runs; return whether a step begins with it."""
        newest = next_sequence_number() - 1
        recorded, self.newest = newest != self.newest, newest
        if in_backward():
            self._backward = True
            return False
        func, args, kwargs = call
        begins = self._begins(grad, recorded)
        if begins:
            self._restart()
        if recorded and not self._begun:
            self._begun, self._first = True, place_here() or Place()
        if grad and recorded:
            leaves = [each for each in taken_apart(func, args, kwargs)[1] if each.requires_grad and each.is_leaf]
            self.without_module |= any(type(each) is torch.Tensor for each in leaves)
            self._used.update(key for each in leaves if (key := _key(each)) is not None)
        elif self._backward:
            keys = {key for each in written(func, args, kwargs) if (key := _key(each)) in self._used}
            self._written |= keys
            self._recording |= bool(keys) and grad
        return begins

    def _begins(self, grad: bool, recorded: bool) -> bool:
        if not grad or not self.updated:
            return False
        if self.all_updated and (recorded or not self._recording):  # `.data` may be written to with gradients on
            return True
        return recorded and bool(self._first) and place_here() == self._first


def _key(tensor: torch.Tensor) -> int | None:
    try:
        return storage_key(tensor.untyped_storage())
    except (RuntimeError, NotImplementedError):  # without memory of its own
        return None
