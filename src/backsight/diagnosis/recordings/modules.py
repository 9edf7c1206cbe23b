"""The modules of a recorded model: what they are, what they hold, and in which order they ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backsight.runs import Run


@dataclass(frozen=True)
class Module:
    """A module as the run describes it.

    root: the name of the model that it is part of.
    trains: whether each of its own parameters requires a gradient, by the name of the parameter.
    """

    name: str
    type: str
    root: str
    is_leaf: bool
    trains: Mapping[str, bool]

    @property
    def label(self) -> str:
        """`features.3 (ReLU)`; the model itself goes by its class."""
        return f"{self.name} ({self.type})" if self.name else self.type


def modules_of(run: Run) -> dict[str, Module]:
    """Return the modules by name, outer ones first."""
    found: dict[str, Module] = {}
    stack = [(branch, branch["name"]) for branch in reversed(run.tree or [])]
    while stack:
        branch, root = stack.pop()
        if "same_as" not in branch:
            found[branch["name"]] = _module(branch, root)
            stack.extend((child, root) for child in reversed(branch["children"]))
    return found


def order_of(run: Run) -> dict[str, int]:
    """Return the place of each module in the last forward pass that was recorded; empty if modules were not tapped."""
    orders = [event.details.get("modules") for event in run.events if event.event == "order"]
    last = orders[-1] if orders and type(orders[-1]) is list else ()
    whole = (each for each in last if type(each) is list and [type(part) for part in each] == [str, str])
    entered = (name for what, name in whole if what == "enter")
    return {name: k for k, name in enumerate(dict.fromkeys(entered))}


def _module(branch: dict[str, Any], root: str) -> Module:
    name = branch["name"]
    prefix = f"{name}." if name else ""
    trains = {prefix + parameter["name"]: bool(parameter["requires_grad"]) for parameter in branch["parameters"]}
    return Module(name, branch["type"], root, not branch["children"], trains)
