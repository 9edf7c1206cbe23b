"""Which groups are open: as much as can be taken in at one look, or what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush

from backsight.drawing.look import MOST_BOXES, Look
from backsight.drawing.scene import Box, Scene


def opened(scene: Scene, look: Look, model: str = "") -> Scene:
    """Return `scene` with groups opened, those with most in them first, while `look.max_boxes` allows.

    What `look.depth` and `look.open` ask for is open whatever that costs, up to 500 boxes; a path may begin with the
    variable of the model.
    """
    children = _children(scene.boxes)
    wanted = _wanted(scene.boxes, look, model)
    shown = len(children[-1])
    open_now: set[int] = set()
    waiting: list[_Offer] = []
    _offer(waiting, scene.boxes, children[-1], wanted)
    limit = MOST_BOXES if look.depth is not None else min(look.max_boxes, MOST_BOXES)
    while waiting:
        unwanted, _, _, index = heappop(waiting)
        more = len(children[index]) - 1
        # Where next to nothing would be seen, too much is better than too little.
        most = MOST_BOXES if not unwanted else 2 * limit if 2 * shown < limit else limit
        if shown + more > most or (unwanted and look.depth is not None):
            continue
        shown += more
        open_now.add(index)
        _offer(waiting, scene.boxes, children[index], wanted)
    boxes = tuple(replace(b, opened=True) if b.index in open_now else b for b in scene.boxes)
    return replace(scene, boxes=boxes)


_Offer = tuple[bool, bool, int, int]
"""A closed group that could be opened, those to be opened first the smallest: on the path, then with most inside."""


def _offer(waiting: list[_Offer], boxes: Sequence[Box], inner: Sequence[int], wanted: set[int]) -> None:
    for index in inner:
        if boxes[index].is_group:
            box = boxes[index]
            heappush(waiting, (index not in wanted, not box.hot, -box.count * box.copies, index))


def _children(boxes: Sequence[Box]) -> dict[int, list[int]]:
    """Return the boxes directly within each box, and within none: -1."""
    children: dict[int, list[int]] = {-1: []}
    for box in boxes:
        children.setdefault(-1 if box.parent is None else box.parent, []).append(box.index)
    return children


def _wanted(boxes: Sequence[Box], look: Look, model: str) -> set[int]:
    """Return the groups that are to be open whatever the number of boxes: those asked for, and those around them."""
    paths = {*look.open, *(path.removeprefix(f"{model}.") for path in look.open)}
    depths: list[int] = []
    wanted: set[int] = set()
    for box in boxes:
        depths.append(0 if box.parent is None else depths[box.parent] + 1)
        asked = look.depth is not None and (look.depth < 0 or depths[-1] < look.depth)
        if box.is_group and (asked or box.path in paths):
            wanted.add(box.index)
            around = box.parent
            while around is not None and around not in wanted:
                wanted.add(around)
                around = boxes[around].parent
    return wanted
