"""What a picture shows as an outline, for languages that nest by brackets: Graphviz's and Mermaid's."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.drawing.scene import Box, Scene
from backsight.text.palette import LIGHT

FILLS = tuple(LIGHT[f"heat{k}"] for k in range(5))
"""The colours of a box by its heat."""


def outline(scene: Scene) -> Iterator[tuple[int, Box | None]]:
    """Yield the boxes that are shown and the groups around them, each with its depth; None where a group ends."""
    around: list[int] = []
    for box in scene.boxes:
        if scene.stands_for[box.index] != box.index:
            continue
        while around and around[-1] != box.parent:
            around.pop()
            yield len(around), None
        yield len(around), box
        if box.opened:
            around.append(box.index)
    yield from ((k, None) for k in range(len(around) - 1, -1, -1))


def facts(box: Box) -> list[str]:
    """Return what stands below the name of a box, a line each."""
    if box.is_group:
        return [f"{box.count} operations", *([box.amount] if box.amount else [])]
    leaves = ", ".join(chip.text for chip in box.chips)
    return [line for line in (f"{box.shape} {box.amount}".strip(), leaves, box.root) if line]
