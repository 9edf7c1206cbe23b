"""The console that everything in colour is printed with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backsight.text.characters import inert
from backsight.text.rich import Console as RichConsole
from backsight.text.rich import ConsoleOptions, RenderableType, Segment


class Console(RichConsole):
    """rich's console, in which text is text: no markup, no emoji codes, and no character that steers the terminal.

    Colours are rich's own; those that stand in a text are spelled out like any other control character.
    """

    def __init__(self, **options: Any):
        super().__init__(**{"highlight": False, "emoji": False, "markup": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is printed of something; what is in it comes through here as well, before it is laid out."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(inert(segment.text), segment.style)
