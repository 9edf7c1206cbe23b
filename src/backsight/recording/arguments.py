"""What `record` is told, checked before a training begins: what can only be a mistake is refused, with the fix."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PLAIN = (bool, int, float, str, bytes, type(None))


def whole(argument: str, value: Any, least: int, fix: str) -> int:
    """Return a whole number that is large enough.

    Raises:
        TypeError: if it is no whole number.
        ValueError: if it is less than `least`.
    """
    expected = f"{argument} must be a whole number of at least {least}, not {given(value)}: {fix}."
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(expected)
    if value < least:
        raise ValueError(expected)
    return value


def folder_of(value: Any) -> Path | None:
    """Return the folder of a run; None if none was named.

    Raises:
        TypeError: if it is no path.
        ValueError: if it is empty.
    """
    if value is None:
        return None
    fix = "name a folder such as 'runs/first', or omit it for a new one in runs"
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"run must be the path of a folder, not {given(value)}: {fix}.")
    if not (path := os.fsdecode(value)):
        raise ValueError(f"run must be the path of a folder, not {path!r}: {fix}.")
    return Path(path)


def configuration(value: Any) -> Mapping[str, Any]:
    """Return what is to be stored with a run.

    Raises:
        TypeError: if it is no mapping.
    """
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"config must be a dict, not {given(value)}: write config={{'lr': 0.1}}.")
    return value or {}


def given(value: Any) -> str:
    """Return a number or a text as it is written, anything else by its type: nobody's `__repr__` is asked."""
    return repr(value) if type(value) in _PLAIN else type(value).__name__
