"""A difference on a terminal: findings with the lines of both programs, and bars colored by distance."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.text.rich import Padding, RenderableType, Text
from backsight.traces.difference import BARS, Difference, folded, headline, legend

_COLORS = ("green", "yellow", "red")
_CLASSES = {"semantics": "bold red", "precision": "bold yellow", "noise": "bold blue", "same": "bold green"}


def in_color(difference: Difference) -> Iterator[RenderableType]:
    """Yield the parts of a difference as a terminal shows them, in the order of its text."""
    yield Text.assemble(("backsight: ", "dim"), (headline(difference), _CLASSES[difference.cls]))
    yield Text("")
    for finding in difference.findings:
        yield finding
        yield Text("")
    for step in difference.steps:
        first, *rest = folded(step)
        yield Text(first, "bold")
        for line in rest:
            yield Padding(_colored(line.strip()), (0, 0, 0, 2), expand=False)
        yield Text("")
    for line in legend(difference):
        yield Text(line, "dim")
    for note in difference.notes:
        yield Text.assemble(("note: ", "bold blue"), note)


def _colored(line: str) -> Text:
    """Return a line with its bars colored: the same bits green, a difference yellow, and red from a hundredth on."""
    text = Text(line)
    name, separator, rest = line.partition(": ")
    for k, sign in enumerate(rest.partition(" from ")[0], len(name) + len(separator)):
        if sign == "·" or sign in BARS:
            text.stylize(_COLORS[0 if sign == "·" else 1 if BARS.index(sign) < 6 else 2], k, k + 1)
    return text
