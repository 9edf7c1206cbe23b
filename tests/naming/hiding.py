"""Hiding places: each is built by one small function that returns the holder and a weak reference to what it hides, so
that the holder is the only way to it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from backsight.naming import search

Built = tuple[object, "weakref.ref[torch.Tensor]"]
PLACES: list[Any] = []
HERE = "test_a_tensor_is_found_where_it_hides"


def place(expected: str) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Register a hiding place; `expected` is the whole text, or the path of a local of the test."""
    text = expected if "(" in expected.replace("()", "") else f"{expected} (local of {HERE})"

    def register(build: Callable[[], Built]) -> Callable[[], Built]:
        PLACES.append(pytest.param(build, text, id=build.__name__))
        return build

    return register


def tensor() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


def hide(hold: Callable[[torch.Tensor], object]) -> Built:
    hidden = tensor()
    return hold(hidden), weakref.ref(hidden)


class Plain:
    pass


def with_attribute(obj: Any, t: torch.Tensor, name: str = "w") -> Any:
    setattr(obj, name, t)
    return obj


def path_of(hidden: weakref.ref[Any], **options: Any) -> str:
    """Asked by weak reference, so that no variable here becomes the answer."""
    names = search([hidden()], **options).names[0]
    return names[0].path if names else ""
