"""What is used of rich, imported in one place: importing it would draw a number from the program's own `random`."""

from __future__ import annotations

import random

# rich/style.py numbers its links from `getrandbits(24)` on, once, as it is imported: in the midst of a training that
# shuffles its data by these numbers. The method is put in another's place, and not the state back, as other threads may
# draw meanwhile.
_theirs = random.getrandbits
random.getrandbits = random.Random().getrandbits
try:
    from rich import box
    from rich import style as _style
    from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
    from rich.live import Live
    from rich.markup import escape
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text
finally:
    random.getrandbits = _theirs

_LINKS = not hasattr(_style, "randint")
"""Whether links cost nothing: older versions of rich draw a number from the program's `random` for each."""


def linked(style: str, address: str) -> str:
    """Return a style with a link to an address, for terminals that have links."""
    return f"{style} link {address}" if _LINKS else style


__all__ = [
    "BarColumn",
    "Console",
    "ConsoleOptions",
    "Group",
    "MofNCompleteColumn",
    "Padding",
    "Panel",
    "Progress",
    "RenderResult",
    "RenderableType",
    "Segment",
    "Table",
    "Text",
    "TextColumn",
    "TimeRemainingColumn",
    "box",
    "escape",
    "linked",
    "live",
    "markdown",
]


def live(console: Console) -> Live:
    """Return what shows a screen again and again, and gives the terminal back as it was."""
    return Live(console=console, screen=True, auto_refresh=False)


def markdown(text: str) -> RenderableType:
    """Return a page as a terminal shows it."""
    from rich.markdown import Markdown  # with a parser of its own

    return Markdown(text, code_theme="ansi_dark", hyperlinks=False)
