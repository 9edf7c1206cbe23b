"""Weak references that know under which key they are kept, so that one function forgets all of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class Ref(weakref.ref[Any]):
    """A weak reference with a `key`."""

    __slots__ = ("key",)
    key: int

    @classmethod
    def of(cls, held: object, key: int, forget: Callable[[Any], None]) -> Ref:
        """Return a reference that is handed to `forget` when `held` is gone."""
        ref = cls(held, forget)
        ref.key = key
        return ref
