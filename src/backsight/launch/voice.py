"""How backsight speaks beside a program: on stderr, after the program's own output, framed only on a terminal."""

from __future__ import annotations

import os
import sys
from typing import Any

_WIDEST = 110
"""Columns of a frame: longer lines are hard to read."""


def rank() -> int:
    """Return which of several processes this is; what is the same for all of them, only the first one says."""
    told = os.environ.get("RANK", "0")
    return int(told) if told.isdecimal() else 0


def say(line: str) -> None:
    """Print one line on stderr; nothing if the program has closed or removed it (`print` would then use stdout)."""
    if sys.stderr is not None:
        try:
            print(line, file=sys.stderr, flush=True)
        except (OSError, ValueError):  # closed or broken, and there is no other place to say so
            return


def failed(what: str, failure: BaseException) -> None:
    """Say in one line that backsight, not the program, has failed; the failure's text may be a user's, and raise."""
    try:
        text = f"{type(failure).__name__}: {failure}"
    except Exception:
        text = type(failure).__name__
    say(f"backsight: {what}: {text}")


def show(what: Any, title: str) -> None:
    """Print a finding or a report: framed and coloured on a terminal, plain in a file."""
    if sys.stderr is None:
        return
    from rich.console import Console
    from rich.panel import Panel

    console = Console(stderr=True, highlight=False, emoji=False, markup=False)
    if console.is_terminal:
        console.width = min(console.width, _WIDEST)
        console.print(Panel(what, title=title, title_align="left", border_style="cyan", padding=(1, 2)))
    else:
        say(f"\n{title}\n{'-' * len(title)}\n{what}")
