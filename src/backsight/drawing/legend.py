"""What colours, rims and pills stand for: the entries of the legend, the same below an SVG and in a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from backsight.drawing.scene import STATUSES, Box, Scene


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
