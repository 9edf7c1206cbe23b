"""What `verify` says when there is nothing to verify."""

from __future__ import annotations


class NothingToVerify(ValueError):
    """The function has no gradient that could be right or wrong. The message says why and what to do."""


class CannotTest(Exception):
    """An operation cannot be tested; the message says why. Becomes a `Skipped`."""


class OutOfTime(CannotTest):
    """The time given to a verification is over."""


def raised(error: BaseException) -> str:
    """Return `ValueError: its first line`, shortened."""
    lines = str(error).strip().split("\n")
    text = lines[0] if len(lines[0]) <= 160 else lines[0][:159] + "…"
    return f"{type(error).__name__}: {text}".rstrip(": ")
