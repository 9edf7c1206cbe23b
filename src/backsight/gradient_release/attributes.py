"""What an optimizer that is not PyTorch's keeps in attributes, which a program may set: an epoch, a loss."""

from __future__ import annotations

from typing import Any

import torch

from backsight.blame import warn
from backsight.gradient_release.errors import ReleaseWarning

_PLAIN = (bool, int, float, str, type(None))
_OF_THE_CLASS = frozenset({"state", "param_groups", "defaults", "step"})


def attributes(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the public attributes of an optimizer that are numbers, words, switches, or tuples of these."""
    return {
        name: value
        for name, value in vars(optimizer).items()
        if not name.startswith("_") and name not in _OF_THE_CLASS and _is_plain(value)
    }


def hand_on(optimizer: torch.optim.Optimizer, made: torch.optim.Optimizer) -> None:
    """Give an optimizer what was set on one like it.

    But for whole numbers that its own steps may have counted, or that may be sizes of its own parameters.
    """
    there = vars(made)
    for name, value in attributes(optimizer).items():
        own = there.get(name)
        counted = bool(optimizer.state) and not hasattr(type(optimizer), name)
        if _is_plain(own) and not (type(value) is int and (counted or (type(own) is int and own > 1))):
            setattr(made, name, value)


class SetSince:
    """Tells of attributes that were set outside of a step, since that was shown to step each parameter by itself.

    ```python
    since = SetSince(optimizer)
    optimizer.epoch = 1
    since.tell()        # a ReleaseWarning, once for each attribute
    since.renew()       # after a step, which may set what it likes
    ```
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._optimizer = optimizer
        self._told: set[str] = set()
        self.renew()

    def renew(self) -> None:
        """Take what there is now for known."""
        self._known = attributes(self._optimizer)

    def tell(self) -> None:
        """Warn of an attribute that is not what it was."""
        now = attributes(self._optimizer)
        if now == self._known:
            return
        kind = type(self._optimizer)
        for name, value in now.items():
            was = self._known.get(name, getattr(kind, name, None))
            if name not in self._told and value != was and value == value:
                self._told.add(name)
                warn(
                    f"{kind.__name__}.{name} was set to {value!r} after release() checked its step, when it was "
                    f"{was!r}. Steps with another value were not checked. If it decides whether parameters are "
                    "stepped separately, set it before release(): call release.remove() and release the optimizer "
                    "again.",
                    ReleaseWarning,
                )
        self._known = now


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))
