"""Printing to a terminal, a file or another program."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

PIPED = 100
"""Columns of what is written to a file or another program."""


def show(*what: RenderableType) -> None:
    """Print all of it, and end no line with spaces."""
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):  # names may hold what the encoding of the output does not
        sys.stdout.reconfigure(errors="backslashreplace")
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED
    with console.capture() as held:
        console.print(*what, sep="\n")
    print("\n".join(line.rstrip() for line in held.get().rstrip().split("\n")))
