"""Text as the cells of a terminal: made harmless, measured, cut, and coloured."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal
from unicodedata import category, east_asian_width

from backsight.text import printable

Style = Literal["dim", "bold", "red", "green", "yellow", "blue", "magenta", "cyan", "plain"]

_CODES: dict[Style, str] = {
    "dim": "2",
    "bold": "1",
    "red": "1;31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}

_LONGEST = 300
"""Names are cut to this before anything else is done with them; no terminal shows more in one line."""


@lru_cache(maxsize=65536)
def harmless(text: str) -> str:
    """Return `text` with control, direction and other invisible characters spelt out: `\\x1b`, `\\n`, `\\u202e`."""
    return printable(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")


def cells(text: str) -> int:
    """Return how many columns `text` takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@lru_cache(maxsize=4096)
def _cells(character: str) -> int:
    if character == "\ufe0f":  # asks for the wide form of the emoji before it
        return 1
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def cut(text: str, room: int) -> str:
    """Return `text` in at most `room` columns, ending in `…` if it had to be cut."""
    if cells(text) <= room:
        return text
    used, kept = 1, []
    for character in text:
        used += _cells(character)
        if used > room:
            break
        kept.append(character)
    return "".join(kept) + "…" if room > 0 else ""


def cut_left(text: str, room: int) -> str:
    """Return the end of `text` in at most `room` columns, after `…` if it had to be cut."""
    if cells(text) <= room:
        return text
    used, kept = 1, []
    for character in reversed(text):
        used += _cells(character)
        if used > room:
            break
        kept.append(character)
    return "…" + "".join(reversed(kept)) if room > 0 else ""


def padded(text: str, room: int, *, right: bool = False) -> str:
    """Return `text` cut or filled to exactly `room` columns."""
    text = cut(text, room)
    fill = " " * (room - cells(text))
    return fill + text if right else text + fill


def paint(text: str, style: Style) -> str:
    """Return `text` in ANSI colour; of text made of blanks, nothing is changed."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style != "plain" and text.strip() else text
