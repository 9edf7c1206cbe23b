"""The words around the picture: title and summary above, legend and remarks below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from backsight.drawing.card import CHIP_HEIGHT, Tag, Text
from backsight.drawing.metrics import fitted, text_width
from backsight.drawing.scene import STATUSES, Scene

LINE = 20.0
SAMPLE_HEIGHT = CHIP_HEIGHT - 2
_SMALL = 11.0


@dataclass(frozen=True)
class Sample:
    """A small box that shows what a colour or a rim stands for."""

    x: float
    y: float
    width: float
    style: str
    heat: int = 0


Part = Text | Tag | Sample


@dataclass(frozen=True)
class Caption:
    """What stands above and below the picture, at y from the top of each, and how much room it takes."""

    head: tuple[Text, ...]
    foot: tuple[Part, ...]
    width: float
    above: float
    below: float


def caption(scene: Scene, room: float) -> Caption:
    """Return the words around `scene` in lines of about `room`."""
    name = fitted(scene.title, max(room, 480.0), 15.0, bold=True)
    cut_from = scene.title if name != scene.title else ""
    head = [Text(0.0, 15.0, name, "name", text_width(name, 15.0, bold=True), cut_from)]
    y = 15.0
    for line in _wrapped(scene.summary, room):
        y += 17.0
        head.append(Text(0.0, y, line, "sub", text_width(line, _SMALL)))
    foot: list[Part] = []
    x, y_foot = 0.0, 12.0
    for group in _legend(scene):
        width = _extent(group)
        if x and x + width > room:
            x, y_foot = 0.0, y_foot + LINE
        foot += [_moved(part, x, y_foot) for part in group]
        x += width + 14.0
    if x:
        y_foot += LINE
    for remark in scene.remarks:
        for k, line in enumerate(_wrapped(f"{remark.number}  {remark.text}", room)):
            foot.append(Text(0.0 if not k else 12.0, y_foot + 11.0, line, "sub", text_width(line, _SMALL)))
            y_foot += LINE - 4
    width = max(part.x + part.width for part in (*head, *foot))
    return Caption(tuple(head), tuple(foot), width, y + 16.0, y_foot + 6.0 if foot else 0.0)


def _wrapped(text: str, room: float) -> list[str]:
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, _SMALL) <= room:
            lines[-1] = longer
        else:
            lines.append(fitted(word, room, _SMALL))
    return lines


def _legend(scene: Scene) -> Iterator[list[Part]]:
    """Yield the entries of the legend: only what occurs."""
    shown = [scene.boxes[i] for i in scene.shown]
    name, classes = scene.scale
    if name and any(box.heat for box in shown):
        yield [*_words(0.0, f"{name}:")]
        for k, words in enumerate(classes, 1):
            yield [Sample(0.0, 1.0, 22.0, "n", k), *_words(28.0, words)]
    met = {chip.status for box in shown for chip in box.chips}
    for status, words in STATUSES.items():
        if status in met:
            width = text_width(words, 10.5)
            yield [Tag(0.0, 0.0, width + 11, status, Text(5.5, 11.2, words, "chip", width), "")]
    if any(box.hot for box in shown):
        yield [Sample(0.0, 1.0, 22.0, "hot"), *_words(28.0, "on the path")]
    if any(box.shared for box in shown):
        yield [Sample(0.0, 1.0, 22.0, "shared"), *_words(28.0, "in both graphs")]
    if any(box.state for box in shown):
        yield [Sample(0.0, 1.0, 22.0, "bad"), *_words(28.0, "saved tensors freed or modified")]
    if any(box.is_group for box in shown):
        yield [Sample(0.0, 1.0, 22.0, "g"), *_words(28.0, "closed: more inside")]
    for note in scene.notes:
        yield [*_words(0.0, note)]


def _words(x: float, text: str) -> Iterator[Text]:
    yield Text(x, 11.2, text, "sub", text_width(text, _SMALL))


def _extent(parts: list[Part]) -> float:
    return max(part.x + part.width for part in parts)


def _moved(part: Part, x: float, y: float) -> Part:
    return part.moved(x, y) if isinstance(part, Tag) else replace(part, x=part.x + x, y=part.y + y)
