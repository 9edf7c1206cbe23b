"""`model.disarm`: the one attribute that torchEmber puts on a user's model."""

from __future__ import annotations

import functools
import inspect
import operator
from typing import Any, Protocol

import torch

from backsight.recording import registered


class Armed(Protocol):
    """What is to be disarmed."""

    @property
    def model(self) -> torch.nn.Module | None: ...

    def disarm(self) -> None: ...


class Disarm:
    """Disarms, and returns the model."""

    def __init__(self, armed: Armed):
        self._armed = armed

    def __call__(self) -> torch.nn.Module | None:
        self._armed.disarm()
        return self._armed.model

    def __reduce__(self) -> tuple[Any, ...]:
        """Return, for copies and pickles of the model, a call of the standard library that returns that copy.

        A pickle cannot leave out an attribute, and has to load where backsight is not installed.
        """
        return functools.partial, (operator.itemgetter(0), (self._armed.model,))

    def attach(self, model: torch.nn.Module) -> None:
        """Become an attribute of the model, unless it or its class has one of this name."""
        tables = ("_parameters", "_buffers", "_modules")
        known = any("disarm" in registered(model, table) for table in tables)
        if not known and inspect.getattr_static(model, "disarm", None) is None:
            _own(model)["disarm"] = self

    def detach(self, model: torch.nn.Module) -> None:
        """Leave the model."""
        if attached(model) is self:
            del _own(model)["disarm"]


def attached(model: torch.nn.Module) -> Disarm | None:
    """Return what is on the model, if it is ours."""
    found = _own(model).get("disarm")
    return found if type(found) is Disarm else None


def _own(model: torch.nn.Module) -> dict[str, Any]:
    """Return the attributes of the model itself without asking its `__getattr__`."""
    own: dict[str, Any] = object.__getattribute__(model, "__dict__")
    return own
