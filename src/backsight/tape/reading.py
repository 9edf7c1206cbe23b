"""Parts of a document that is not trusted, each looked at before it is used."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

LARGEST = 2**63 - 1

_T = TypeVar("_T")
_Key = str | int


class BadDocument(ValueError):
    """A document is not what was written: where it is wrong."""


@dataclass(frozen=True)
class Part:
    """An object or a list of a document, and where it stands in it."""

    held: dict[str, Any] | list[Any]
    place: str = ""

    @classmethod
    def of(cls, held: Any, place: str = "") -> Part:
        """Return a part, of what has to be an object or a list."""
        if type(held) not in (dict, list):
            raise BadDocument(f"{place or 'it'} must be an object or a list, not {_named(held)}")
        return cls(held, place)

    def at(self, key: _Key, kind: type[_T] | None = None) -> Any:
        """Return what stands at a name or position, which has to be of a type exactly if one is given."""
        try:
            value: Any = self.held[key]  # type: ignore[index]  # a name in an object, a position in a list
        except (KeyError, IndexError, TypeError):
            raise BadDocument(f"{self._said(key)} is missing") from None
        if kind is not None and type(value) is not kind:
            raise BadDocument(f"{self._said(key)} must be {kind.__name__}, not {_named(value)}")
        return value

    def maybe(self, key: _Key, kind: type[_T]) -> _T | None:
        """Return what stands there, or None where null does."""
        return None if self.at(key) is None else self.at(key, kind)

    def word(self, key: _Key, allowed: tuple[Any, ...]) -> Any:
        """Return a word, which has to be one of these."""
        if (value := self.at(key, str)) not in allowed:
            raise BadDocument(f"{self._said(key)} must be one of {', '.join(allowed)}, not {value[:40]!r}")
        return value

    def number(self, key: _Key, low: int = 0, high: int = LARGEST) -> int:
        """Return a whole number from `low` to `high`."""
        value: int = self.at(key, int)
        if not low <= value <= high:
            raise BadDocument(f"{self._said(key)} must be from {low} to {high}, not {str(value)[:40]}")
        return value

    def whole(self, key: _Key, below: int = LARGEST) -> int:
        """Return a whole number from 0 on and below another."""
        return self.number(key, 0, below - 1)

    def items(self) -> list[Any]:
        """Return what this list holds."""
        if type(self.held) is not list:
            raise BadDocument(f"{self.place} must be a list, not an object")
        return self.held

    def part(self, key: _Key) -> Part:
        """Return the object or list that stands there."""
        return Part.of(self.at(key), self._said(key))

    def subparts(self) -> Iterator[Part]:
        """Yield the objects or lists in this list."""
        return (Part.of(each, f"{self.place}[{k}]") for k, each in enumerate(self.items()))

    def parts(self, key: _Key) -> list[Part]:
        """Return the objects or lists in the list that stands there."""
        return list(self.part(key).subparts())

    def texts(self, key: _Key) -> list[str]:
        """Return a list of texts."""
        part = self.part(key)
        return [part.at(k, str) for k in range(len(part.items()))]

    def shape(self, key: _Key) -> tuple[int, ...]:
        """Return a shape; -1 stands for what differs between the parts of a nested tensor."""
        part = self.part(key)
        return tuple(part.number(k, -1) for k in range(len(part.items())))

    def numbers(self, key: _Key, *, low: int, high: int = LARGEST, count: Container[int]) -> NDArray[np.int64]:
        """Return a column of whole numbers from `low` on and below `high`, with so many entries."""
        held = self.at(key, list)
        if len(held) not in count:
            raise BadDocument(f"{self._said(key)} has {len(held):,} entries, which does not fit the rest")
        if any(type(value) is not int or not low <= value < high for value in held):
            wrong = next(v for v in held if type(v) is not int or not low <= v < high)
            raise BadDocument(f"{self._said(key)} holds {_named(wrong)} but must hold numbers below {high}")
        return np.array(held, np.int64)

    def _said(self, key: _Key) -> str:
        inside = f"[{key}]" if isinstance(key, int) else f".{key}"
        return f"{self.place}{inside}".removeprefix(".")


@cache
def dtype_of(name: str) -> torch.dtype:
    """Return the dtype of this name."""
    found = vars(torch).get(name)
    if type(found) is not torch.dtype:
        raise BadDocument(f"there is no dtype {name[:40]!r}")
    return found


@cache
def device_of(name: str) -> torch.device:
    """Return the device of this name, which need not be in this machine."""
    try:
        return torch.device(name)
    except (RuntimeError, ValueError):
        raise BadDocument(f"there is no device {name[:40]!r}") from None


def _named(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}" if type(value) in (str, int, float) else type(value).__name__
