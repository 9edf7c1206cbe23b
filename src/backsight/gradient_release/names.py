"""What the program calls the parameters of an optimizer, looked up when somebody asks."""

from __future__ import annotations

import torch

from backsight.naming import Name, search

_OURS = ("._ledger.", ".ledger.", "._kept", "._without_gradient")
"""Attributes of a release through which parameters can be reached."""


def parameter_names(optimizer: torch.optim.Optimizer) -> dict[int, str]:
    """Return a name for each parameter of an optimizer, by the `id` of the parameter, in the optimizer's order.

    Names that were given to the optimizer come first (`AdamW(model.named_parameters())`), then those by which the
    program holds them; a parameter without either is named by its place: "group 0, parameter 3 of shape (50, 50)".
    """
    places = [
        (parameter, f"group {number}, parameter {at} of shape {tuple(parameter.shape)}", given)
        for number, group in enumerate(optimizer.param_groups)
        for at, (parameter, given) in enumerate(zip(group["params"], _given(group), strict=True))
    ]
    found = search([parameter for parameter, _, _ in places]).names
    named: dict[int, str] = {}
    for (parameter, place, given), names in zip(places, found, strict=True):
        text = given or next((name.path for name in names if _is_of_the_program(name)), place)
        named[id(parameter)] = text if text not in named.values() else f"{text} ({place})"
    return named


def _given(group: dict[str, list[str]]) -> list[str | None]:
    """Return the names that the optimizer was made with."""
    return list(group["param_names"]) if "param_names" in group else [None] * len(group["params"])


def _is_of_the_program(name: Name) -> bool:
    """Whether a name is one that the program knows, and does not go through what a release holds meanwhile."""
    return bool(name.exact and name.path) and not any(part in name.path for part in _OURS)
