"""Characters that a terminal would act on, spelled out.

A name of a tensor, a message of an exception, a folder: any of them may hold a sequence that sets the title of the
window, hides what follows, or turns the reading direction around.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text in one line: control, direction and other invisible characters become `\\x1b`, `\\n`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def inert(text: str) -> str:
    """Return lines of text as `printable` does; their ends and tabs stay."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
