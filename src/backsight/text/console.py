"""The console that everything in colour is printed with."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any

from backsight.text.characters import inert
from backsight.text.rich import Console as RichConsole
from backsight.text.rich import ConsoleOptions, RenderableType, Segment


class Console(RichConsole):
    """rich's console, in which text is text: no markup, no emoji codes, and no character that steers the terminal.

    With `NO_COLOR` set it writes no escape codes at all. Colours are rich's own; those that stand in a text are spelled
    out like any other control character.
    """

    def __init__(self, **options: Any):
        if os.environ.get("NO_COLOR"):  # rich would still write bold and dim
            options = {"color_system": None, **options}
        super().__init__(**{"highlight": False, "emoji": False, "markup": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is printed of something; what is in it comes through here as well, before it is laid out."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(inert(segment.text), segment.style)


def printed(*parts: RenderableType, width: int, color: bool = False, terminal: bool | None = None) -> str:
    """Return what a console of so many columns prints, without the spaces that lines end with; plain without `color`.

    Whoever asks for colour has looked whether there is a terminal, and at `NO_COLOR`. With `terminal` it is what
    one would show, be it without colour.
    """
    console = Console(
        file=io.StringIO(),
        width=width,
        color_system="standard" if color else None,
        no_color=not color,
        force_terminal=color
        if terminal is None
        else terminal,  # and not where FORCE_COLOR is set, as it is in kernels of notebooks
        force_jupyter=False,  # where rich would write to the cell, and return nothing
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))
