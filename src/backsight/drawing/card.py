"""What stands on a box, and where: two lines of text that never leave it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from backsight.drawing.metrics import fitted, text_width
from backsight.drawing.scene import Box, Chip

HEIGHT = 42.0
MARGIN = 9.0
CHIP_HEIGHT = 15.0
MOST_CHIPS = 3
_SPACE = 7.0

Face = Literal["name", "op", "solo", "sub", "amount", "chip", "state"]
_FACES: dict[Face, tuple[float, float]] = {
    "name": (12.0, 150.0),
    "op": (12.0, 150.0),
    "solo": (12.0, 180.0),
    "sub": (11.0, 150.0),
    "amount": (11.0, 110.0),
    "chip": (10.5, 96.0),
    "state": (10.5, 180.0),
}
"""The size of a text's letters, and how wide it may become."""


@dataclass(frozen=True)
class Text:
    """A piece of text at its baseline's left end; `full` is what it was cut from, if it was."""

    x: float
    y: float
    text: str
    face: Face
    width: float
    full: str = ""

    def moved(self, x: float, y: float) -> Text:
        """Return the text at another place."""
        return replace(self, x=self.x + x, y=self.y + y)


@dataclass(frozen=True)
class Tag:
    """A pill with text in it: a leaf, the name of a root, or the state of saved tensors."""

    x: float
    y: float
    width: float
    style: str
    text: Text
    title: str
    hot: bool = False
    nodes: tuple[int, ...] = ()

    def moved(self, x: float, y: float) -> Tag:
        """Return the tag at another place."""
        return replace(self, x=self.x + x, y=self.y + y, text=self.text.moved(x, y))


@dataclass(frozen=True)
class Card:
    """A box's size, and what stands on it."""

    width: float
    height: float
    texts: tuple[Text, ...]
    tags: tuple[Tag, ...]


def measured(text: str, face: Face) -> tuple[str, float, str]:
    """Return `text` cut to the room that its face has, its width, and the full text if it was cut."""
    (size, room), bold = _FACES[face], face == "name"
    short = fitted(text, room, size, bold=bold)
    return short, text_width(short, size, bold=bold), text if short != text else ""


def card(box: Box) -> Card:
    """Return what stands on `box` when it is shown as one: an operation or a closed group.

    ```python
    card(box).width         # as wide as its text needs, within limits
    ```
    """
    texts, x = _line(MARGIN, 16.0, _first_line(box))
    x_first = x
    lower, x = _line(MARGIN, 33.5, [(_second_line(box), "sub")])
    tags = []
    for tag in _tags(box):
        tags.append(tag.moved(x, 22.0))
        x += tag.width + 4
    amount, amount_width, full = measured(box.amount, "amount")
    needed = x_first + (amount_width + 4 if amount else -_SPACE)
    width = max(needed, x - (4 if tags else _SPACE), 40.0) + MARGIN
    corner = (Text(width - MARGIN - amount_width, 16.0, amount, "amount", amount_width, full),) if amount else ()
    return Card(width, HEIGHT, (*texts, *lower, *corner), tuple(tags))


def _line(x: float, y: float, pieces: Sequence[tuple[str, Face]]) -> tuple[tuple[Text, ...], float]:
    out = []
    for text, face in pieces:
        if text:
            short, width, full = measured(text, face)
            out.append(Text(x, y, short, face, width, full))
            x += width + _SPACE
    return tuple(out), x


def _first_line(box: Box) -> list[tuple[str, Face]]:
    if box.is_group:
        return [(title(box), "name"), (box.cls, "op")]
    times = f" × {box.times:,}" if box.times > 1 else ""
    return [(box.name + times, "name"), (box.cls or box.op, "op")] if box.name else [(box.op + times, "solo")]


def title(box: Box) -> str:
    """Return what a group is called: `h.0…11 × 12`."""
    return f"{box.name} × {box.times:,}" if box.times > 1 else box.name


def _second_line(box: Box) -> str:
    if not box.is_group:
        return box.shape
    return f"{box.count:,} op{'s' * (box.count != 1)}" + (f", {box.shape}" if box.shape else "")


def _tags(box: Box) -> Iterator[Tag]:
    if box.root:
        yield tag("root", box.root, "where the capture began")
    if box.state:
        yield tag(box.verdict, box.state, "saved tensors")
    for chip in box.chips[:MOST_CHIPS]:
        yield tag(chip.status, chip.text, ", ".join(chip.names), hot=chip.hot, nodes=chip.nodes)
    rest = box.chips[MOST_CHIPS:]
    if rest:
        names = ", ".join(name for chip in rest[:20] for name in chip.names)
        nodes = tuple(node for chip in rest for node in chip.nodes)
        yield tag(_worst(rest), f"+{len(rest)}", names, hot=any(chip.hot for chip in rest), nodes=nodes)


def _worst(chips: Sequence[Chip]) -> str:
    """Return the status that most needs to be seen."""
    order = ("cut", "overwritten", "untrained", "frozen", "unknown", "trained", "given")
    return min((chip.status for chip in chips), key=order.index)


def tag(style: str, text: str, title: str = "", *, hot: bool = False, nodes: tuple[int, ...] = ()) -> Tag:
    """Return a pill with `text` in it, at the origin."""
    face: Face = "state" if style in ("bad", "gone", "hooked") else "chip"
    short, width, _ = measured(text, face)
    return Tag(0.0, 0.0, width + 11, style, Text(5.5, 11.2, short, face, width), title, hot, nodes)
