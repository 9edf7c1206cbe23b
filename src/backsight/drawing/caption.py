"""The words around the picture: title and summary above, legend (also a page's) and remarks below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from backsight.drawing.card import CHIP_HEIGHT, Tag, Text, tag
from backsight.drawing.metrics import fitted, text_width
from backsight.drawing.scene import STATUSES, Box, Scene

LINE = 20.0
SAMPLE_HEIGHT = CHIP_HEIGHT - 2
_SMALL = 11.0


@dataclass(frozen=True)
class Sample:
    """A small box that shows what a heat or a rim stands for."""

    x: float
    y: float
    width: float
    mark: str

    def moved(self, x: float, y: float) -> Sample:
        """Return the sample at another place."""
        return replace(self, x=self.x + x, y=self.y + y)


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
    for entries in legend(scene, (scene.boxes[i] for i in scene.shown)):
        parts, width = _drawn(entries)
        if x and x + width > room:
            x, y_foot = 0.0, y_foot + LINE
        foot += [part.moved(x, y_foot) for part in parts]
        x += width + 14.0
    if x:
        y_foot += LINE
    for remark in scene.remarks:
        foot.append(tag("pin", str(remark.number)).moved(0.0, y_foot))
        for line in _wrapped(remark.text, room - 24.0):
            foot.append(_words(24.0, line).moved(0.0, y_foot))
            y_foot += LINE - 4
        y_foot += 4
    width = max(part.x + part.width for part in (*head, *foot))
    return Caption(tuple(head), tuple(foot), width, y + 16.0, y_foot + 6.0 if foot else 0.0)


def _drawn(entries: Iterable[Entry]) -> tuple[list[Part], float]:
    """Return the parts of a line of the legend, from the origin, and how wide they are."""
    parts: list[Part] = []
    x = 0.0
    for entry in entries:
        if entry.pill:
            width = text_width(entry.words, 10.5)
            parts.append(Tag(x, 0.0, width + 11, entry.pill, Text(x + 5.5, 11.2, entry.words, "chip", width), ""))
        else:
            if entry.mark:
                parts.append(Sample(x, 1.0, 22.0, entry.mark))
                x += 27.0
            parts.append(_words(x, entry.words))
        x = parts[-1].x + parts[-1].width + 9.0
    return parts, x - 9.0


def _words(x: float, text: str) -> Text:
    return Text(x, 11.2, text, "sub", text_width(text, _SMALL))


def _wrapped(text: str, room: float) -> list[str]:
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, _SMALL) <= room:
            lines[-1] = longer
        else:
            lines.append(fitted(word, room, _SMALL))
    return lines


class Entry(NamedTuple):
    """A sample and what it stands for.

    `pill` and `mark` are styles: of a pill, or of a box with a heat such as "h2", a rim such as "hot", or none.
    """

    words: str
    mark: str = ""
    pill: str = ""


def legend(scene: Scene, boxes: Iterable[Box]) -> Iterator[tuple[Entry, ...]]:
    """Yield what stands in one line of the legend of `boxes` each: only what occurs.

    ```python
    [[entry.words for entry in line] for line in legend(scene, scene.boxes)]    # [["≤ 1%", ...], ["leaf"], ...]
    ```
    """
    boxes = list(boxes)
    name, classes = scene.scale
    if name and any(box.heat for box in boxes):
        yield (*(Entry(words, mark=f"h{k}") for k, words in enumerate(classes, 1)), Entry(name))
    met = {chip.status for box in boxes for chip in box.chips}
    for status, words in STATUSES.items():
        if status in met:
            yield (Entry(words, pill=status),)
    if any(box.hot for box in boxes):
        yield (Entry("on the path", mark="hot"),)
    if any(box.shared for box in boxes):
        yield (Entry("in both graphs", mark="shared"),)
    verdicts = {box.verdict for box in boxes}
    if verdicts & {"bad", "gone"}:
        yield (Entry("saved tensors freed or modified", mark="bad"),)
    if "hooked" in verdicts:
        yield Entry("hooked", pill="hooked"), Entry("packed, as by a checkpoint: size unknown")
    if any(box.is_group and not box.opened for box in boxes):
        yield (Entry("closed: more inside", mark="closed"),)
    for note in scene.notes:
        yield (Entry(note),)
