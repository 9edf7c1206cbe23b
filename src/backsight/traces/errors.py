"""What can be wrong with a trace, each with what, where, and the fix."""

from __future__ import annotations

from backsight.text import inert


class TraceError(Exception):
    """A trace cannot be read or compared. The message names what others have named, and is printed to terminals."""

    def __init__(self, message: str):
        super().__init__(inert(message))


class TraceWarning(UserWarning):
    """Something is not traced, or part of a trace could not be read."""
