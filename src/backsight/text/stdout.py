"""Pictures and tables for `print`: as suits where standard output goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

PIPED = 110
"""Columns of whatever no terminal shows: what goes to a file or another program, and what `str` returns."""


def for_stdout(render: Callable[[bool, bool], str], in_ascii: Mapping[int, int] | None = None) -> str:
    """Return what `render(terminal, color)` makes, with nothing in it that standard output cannot write.

    ```python
    for_stdout(lambda terminal, color: table(walk, width=None if terminal else PIPED, color=color))
    ```

    Args:
        render: is told whether a terminal shows it, and whether that takes colours.
        in_ascii: where some characters cannot be written, what stands for which; all others are escaped.
    """
    stream = sys.stdout
    try:
        terminal = stream.isatty()
    except (AttributeError, ValueError):  # a replaced or closed stdout
        terminal = False
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = render(terminal, color)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(in_ascii or {}).encode("ascii", "backslashreplace").decode("ascii")
    return text
