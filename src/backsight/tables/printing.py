"""Printing to a terminal, a file or another program."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backsight.tables.sparkline import BARS, GAP
from backsight.text import PIPED, inert

if TYPE_CHECKING:
    from backsight.text.console import Console
    from backsight.text.rich import RenderableType

_IN_ASCII = str.maketrans(f"{BARS}{GAP}✗×–…", "_.-=+*#@?xx-~")


def output() -> Console:
    """Return what `show` prints with, for its width."""
    from backsight.text.console import Console

    if hasattr(sys.stdout, "reconfigure"):  # names may hold what the encoding of the output does not
        sys.stdout.reconfigure(errors="backslashreplace")
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED
    return console


def show(*what: RenderableType) -> None:
    """Print all of it; in a file without the spaces that a table ends its lines with, and without UTF-8 in ASCII."""
    console = output()
    with console.capture() as held:
        for each in what:
            whole = bool(getattr(each, "no_wrap", False))  # rich forgets it where it joins texts
            console.print(each, crop=False, soft_wrap=whole)  # the terminal wraps what does not fit: nothing is lost
    text = held.get()
    if not console.encoding.lower().startswith("utf"):
        text = text.translate(_IN_ASCII)
    if not console.is_terminal:
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    sys.stdout.write(text)


def complain(why: object) -> None:
    """Say in a line of its own on stderr what went wrong."""
    print(inert(f"backsight: {why}"), file=sys.stderr)


@contextmanager
def warnings_as_lines(category: type[Warning], say: Callable[[str], object] = complain) -> Iterator[None]:
    """Say in a line each, at the end, what was warned of; as Python shows warnings they are lines of our own code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(each.message) for each in caught):
                say(text)
