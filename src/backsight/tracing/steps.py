"""What every optimizer step leaves behind: which graph is older than it, and which gradients it consumed."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass

import torch

from backsight.snapshot import groups
from backsight.tape import Living, next_sequence_number, no_torch_function
from backsight.tracing.changes import version
from backsight.tracing.moves import Moves


@dataclass(frozen=True)
class Consumed:
    """A gradient as an optimizer step left it: the tensor, weakly, and the version that it had.

    `changes` counts how often it was changed since the step before, if it is still that step's tensor; else None.
    `shared` says that another optimizer's last step had used it already, just as it is. `marks` are the sequence
    numbers at this optimizer's step before, if it had used a gradient too, and at this step.
    """

    grad: weakref.ref[torch.Tensor]
    version: int
    changes: int | None = None
    shared: bool = False
    marks: tuple[int, ...] = ()

    def is_untouched(self, grad: torch.Tensor | None, changes: int = 0) -> bool:
        """Whether `grad` is still this tensor and was changed exactly so often since."""
        return grad is not None and self.grad() is grad and version(grad) == self.version + changes


class StepLog:
    """The optimizer steps of a program: how many, the sequence number at the last, and the gradients it consumed.

    Only the last step of each optimizer is kept, with weak references: memory is bounded by the parameters.
    """

    def __init__(self) -> None:
        self.count = 0
        self.marks: dict[int, int] = {}
        """By thread: the sequence number at the last step. A node with a smaller one was made before that step."""
        self.past: dict[int, deque[int]] = {}
        """By thread: the sequence numbers at the last steps, which tell how many steps ago a node was made."""
        self.moves = Moves()
        """Which parameters the steps have not moved."""
        # By the id of the groups, which a wrapper shares with what it wraps; an optimizer could have a hash of its own.
        self._consumed: Living[dict[int, Consumed]] = Living(self._unused)
        self.trained = 0
        """How many parameters had a gradient in a step of their optimizer."""
        self._trained: Living[set[int]] = Living()  # by the id of the groups, the ids of these parameters
        self._users: dict[int, set[int]] = {}  # by the id of a parameter, the keys of `_consumed` in which it occurs

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that `optimizer` has just stepped in this thread."""
        self.count += 1
        thread, mark = threading.get_ident(), next_sequence_number()
        self.marks[thread] = mark
        self.past.setdefault(thread, deque(maxlen=_PAST)).append(mark)
        key, before = id(groups(optimizer)), self._last(optimizer)
        self.moves.stepped(optimizer)
        with no_torch_function():
            gradients = {
                id(p): self._consumption(key, id(p), grad, before.get(id(p)), mark)
                for p in parameters(optimizer)
                if (grad := p.grad) is not None
            }
        if before.keys() != gradients.keys():
            self._unused(key, self._consumed.drop(key) or {})
            known = self._trained.at(key) or set()
            self.trained += len(gradients.keys() - known)
            self._trained.put(key, optimizer, known | gradients.keys())
            for p in gradients:
                self._users.setdefault(p, set()).add(key)
        self._consumed.put(key, optimizer, gradients)

    def has_trained(self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> bool:
        """Whether a parameter has had a gradient in a step of an optimizer."""
        return id(parameter) in (self._trained.at(id(groups(optimizer))) or ())

    def counted(self, optimizer: torch.optim.Optimizer, *given: object) -> None:
        """Note a step of which no more is to be known than that there was one, and whether it has moved anything."""
        self.count += 1
        self.moves.stepped(optimizer)

    def _unused(self, key: int, gradients: dict[int, Consumed]) -> None:
        """Note that an optimizer uses these gradients no more, by the ids of their parameters."""
        for p in gradients:
            users = self._users.get(p, set())
            users.discard(key)
            if not users:
                self._users.pop(p, None)

    def consumed(self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> Consumed | None:
        """Return the gradient of `parameter` that the last step of `optimizer` used, as it was after the step."""
        return self._last(optimizer).get(id(parameter))

    def _last(self, optimizer: torch.optim.Optimizer) -> dict[int, Consumed]:
        """Return what the last step of `optimizer` consumed, by the id of the parameter."""
        of = groups(optimizer)
        stepped = self._consumed.held(id(of))
        return self._consumed.at(id(of)) or {} if stepped is not None and groups(stepped) is of else {}

    def _consumption(
        self, key: int, parameter: int, grad: torch.Tensor, before: Consumed | None, mark: int
    ) -> Consumed:
        now = version(grad)
        changes = now - before.version if before is not None and before.grad() is grad else None
        users = self._users.get(parameter, ())
        last = ((self._consumed.at(other) or {}).get(parameter) for other in users if other != key)
        shared = any(used is not None and used.is_untouched(grad) for used in last)
        return Consumed(weakref.ref(grad), now, changes, shared, (*(before.marks[-1:] if before else ()), mark))

    def is_stale(self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor, accumulated: int = 0) -> bool:
        """Whether the gradient of `parameter` is still the one that the last two steps consumed, never zeroed between.

        `accumulated` backwards have added to it since the last step, each of which counts as one change. Between the
        two steps there may have been a backward and a clipping; zeroing in place would have been a third change, and
        `set_to_none` would have brought another tensor. (One step alone does not tell: the gradients that a
        generator's loss leaves in its critic are zeroed later.)
        """
        consumed = self.consumed(optimizer, parameter)
        if consumed is None or consumed.changes is None or consumed.changes > _BACKWARD_AND_CLIPPING:
            return False
        return consumed.is_untouched(parameter.grad, accumulated)


_BACKWARD_AND_CLIPPING = 2

_PAST = 4096
"""Steps whose numbers are kept: 36 kB."""


def parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters of all groups, in order."""
    return [p for group in groups(optimizer) for p in group["params"]]
