"""Frames within frames: each is drawn for itself, the innermost first, and then stands in its own as a box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from backsight.drawing.layout.layered import Layered, Point, Wire, layered
from backsight.drawing.look import Direction
from backsight.drawing.scene import Box, Scene

PAD = 14.0
HEAD = 24.0
"""How high the bar is that bears a frame's name; lines that come in go on below it."""
STACKED = 4.0
"""How far the second and the third of several copies stand out behind the first."""
PORT = 8.0
ROOM = 1200.0, 1800.0
"""What is easily seen of a page: its width, and two screens of scrolling, in pixels."""
BETTER = 1.2
"""How much larger a picture from left to right has to be seen to be drawn so unasked."""
TOP = -1
"""Stands for the page, in place of the index of a frame."""

Size = tuple[float, float]


@dataclass(frozen=True)
class Frame:
    """Where a box stands on the page: its left and top edge, width and height."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Line:
    """A stretch of a wire within one frame, and the links of the scene that run along it.

    `arrow` says whether it ends at a box, and not at the edge of a frame within which it goes on.
    """

    points: tuple[Point, ...]
    links: tuple[tuple[int, int], ...]
    arrow: bool


@dataclass(frozen=True)
class Page:
    """A picture with its places: by the index of each box that is shown or open its frame, and the lines."""

    frames: dict[int, Frame]
    lines: tuple[Line, ...]
    width: float
    height: float
    sideways: bool = False


def fitting(scene: Scene, measure: Callable[[Box], Size], head: Callable[[Box], float], direction: Direction) -> Page:
    """Place everything that `scene` shows, as `direction` says; "auto" is down, unless right fits a page much better.

    Boxes are wider than high: what has many branches side by side is too wide for a page from top to bottom, and from
    left to right it is not.
    """
    down = laid_out(scene, measure, head) if direction != "right" else None
    if down is not None and (direction == "down" or down.width <= ROOM[0]):
        return down
    right = laid_out(scene, measure, head, sideways=True)
    return right if down is None or _fit(right) > BETTER * _fit(down) else down


def _fit(page: Page) -> float:
    """Return by how much a picture has to be made smaller to be seen whole."""
    return min(1.0, ROOM[0] / page.width, ROOM[1] / page.height)


def laid_out(
    scene: Scene, measure: Callable[[Box], Size], head: Callable[[Box], float], *, sideways: bool = False
) -> Page:
    """Place everything that `scene` shows.

    Args:
        scene: the picture.
        measure: width and height of a box that is shown as one.
        head: the least width of an open group, for its name.
        sideways: from left to right, rather than from top to bottom.
    """
    shown = set(scene.shown)
    contents = _contents(scene, shown)
    sizes = {index: _stacked(scene.boxes[index], measure(scene.boxes[index])) for index in shown}
    placed: dict[int, _Placed] = {}
    for index in sorted(contents, reverse=True):
        placed[index] = _placed(scene, contents[index], sizes, placed, index, head, sideways)
        if index != TOP:
            sizes[index] = _stacked(scene.boxes[index], placed[index].size)
    return _page(scene, contents, placed, sizes, sideways)


@dataclass
class _Content:
    """What stands in a frame: boxes, and wires with the links that run along them.

    A wire is (what it comes from, its source, what it leads to): an inner box or the frame's own edge. Ports are told
    apart by the source, so that what one box made comes in once and branches inside.
    """

    frame: int
    items: list[int] = field(default_factory=list)
    wires: dict[tuple[int, int, int], list[tuple[int, int]]] = field(default_factory=dict)

    def wire(self, a: int, b: int, link: tuple[int, int]) -> None:
        """Note that `link` runs from `a` to `b`, of which one may be the frame itself."""
        self.wires.setdefault((a, link[0], b), []).append(link)


@dataclass(frozen=True)
class _Placed:
    """A frame's own drawing: its size, its ports by source, and how far the drawing stands from its corner."""

    layout: Layered
    size: Size
    left: float
    top: float
    entries: dict[int, float]
    exits: dict[int, float]


def _stacked(box: Box, size: Size) -> Size:
    more = 2 * STACKED if box.times > 1 else 0.0
    return size[0] + more, size[1] + more


def _contents(scene: Scene, shown: set[int]) -> dict[int, _Content]:
    """Return what stands in each open group and on the page."""
    contents = {TOP: _Content(TOP)}
    for box in scene.boxes:
        if scene.stands_for[box.index] != box.index:
            continue
        contents[TOP if box.parent is None else box.parent].items.append(box.index)
        if box.index not in shown:
            contents[box.index] = _Content(box.index)
    around = {box.index: TOP if box.parent is None else box.parent for box in scene.boxes}
    for link in scene.shown_links:
        _run(contents, around, link)
    return contents


def _run(contents: dict[int, _Content], around: dict[int, int], link: tuple[int, int]) -> None:
    """Lead a link out of the frames around its source, across the one that holds both ends, and into the others."""
    a, b = link
    holding = {TOP}
    frame = a
    while frame != TOP:
        frame = around[frame]
        holding.add(frame)
    inward = [b]
    while around[inward[-1]] not in holding:
        inward.append(around[inward[-1]])
    common = around[inward[-1]]
    while around[a] != common:
        contents[around[a]].wire(a, around[a], link)
        a = around[a]
    contents[common].wire(a, inward[-1], link)
    for frame, inner in zip(reversed(inward), reversed(inward[:-1]), strict=False):
        contents[frame].wire(frame, inner, link)


def _placed(
    scene: Scene,
    content: _Content,
    sizes: dict[int, Size],
    placed: dict[int, _Placed],
    index: int,
    head: Callable[[Box], float],
    sideways: bool,
) -> _Placed:
    """Draw one frame, with its ports as boxes without height at its edges; sideways all is turned over the diagonal."""
    number = {item: k for k, item in enumerate(content.items)}
    ins = list(dict.fromkeys(source for a, source, _ in content.wires if a == index))
    outs = list(dict.fromkeys(source for _, source, b in content.wires if b == index))
    first_in, first_out = len(number), len(number) + len(ins)
    wires = []
    for a, source, b in content.wires:
        tail = first_in + ins.index(source) if a == index else number[a]
        tip = first_out + outs.index(source) if b == index else number[b]
        out_at = placed[a].exits[source] - sizes[a][sideways] / 2 if a in placed and a != index else 0.0
        in_at = placed[b].entries[source] - sizes[b][sideways] / 2 if b in placed and b != index else 0.0
        wires.append(Wire(tail, tip, out_at, in_at))
    boxes = [_turned(sizes[item], sideways) for item in content.items] + [(PORT, 0.0)] * (len(ins) + len(outs))
    entries, exits = range(first_in, first_out), range(first_out, len(boxes))
    spread = [item not in placed for item in content.items] + [False] * (len(ins) + len(outs))
    layout = layered(boxes, wires, entries, exits, spread)
    if index == TOP:
        return _Placed(layout, _turned((layout.width, layout.height), sideways), 0.0, 0.0, {}, {})
    before, after = (0.0 if ins else PAD), (0.0 if outs else PAD)
    across, along = layout.width + 2 * PAD, before + layout.height + after
    bar = head(scene.boxes[index])
    if sideways:
        width, height = max(along, bar), across
        left, top = before + (width - along) / 2, HEAD + PAD
    else:
        width, height = max(across, bar), along
        left, top = (width - layout.width) / 2, HEAD + before
    start = top if sideways else left
    return _Placed(
        layout,
        (width, HEAD + height),
        left,
        top,
        {source: start + layout.middles[first_in + k][0] for k, source in enumerate(ins)},
        {source: start + layout.middles[first_out + k][0] for k, source in enumerate(outs)},
    )


def _turned(pair: tuple[float, float], sideways: bool) -> tuple[float, float]:
    """Return a size or a place of a layout, which goes down, as it is on the page, or the other way round."""
    return (pair[1], pair[0]) if sideways else pair


def _page(
    scene: Scene,
    contents: dict[int, _Content],
    placed: dict[int, _Placed],
    sizes: dict[int, Size],
    sideways: bool,
) -> Page:
    """Put the drawings of all frames into one another."""
    frames: dict[int, Frame] = {}
    lines: list[Line] = []
    corners = {TOP: (0.0, 0.0)}
    for index in sorted(contents):
        own = placed[index]
        x, y = corners[index][0] + own.left, corners[index][1] + own.top
        for item, at in zip(contents[index].items, own.layout.middles, strict=False):
            middle, centre = _turned(at, sideways)
            corner = x + middle - sizes[item][0] / 2, y + centre - sizes[item][1] / 2
            corners[item] = corner
            more = 2 * STACKED if scene.boxes[item].times > 1 else 0.0
            frames[item] = Frame(*corner, sizes[item][0] - more, sizes[item][1] - more)
        for (a, _, b), points, links in zip(
            contents[index].wires, own.layout.wires, contents[index].wires.values(), strict=True
        ):
            turned = (_turned(point, sideways) for point in points)
            moved = [(x + px, y + py) for px, py in turned]
            if sideways and index != TOP:  # a frame may be longer than what is in it, for the sake of its name
                moved = [(corners[index][0], moved[0][1])] * (a == index) + moved
                moved += [(corners[index][0] + own.size[0], moved[-1][1])] * (b == index)
            lines.append(Line(tuple(moved), tuple(links), arrow=b not in placed))
    return Page(frames, tuple(lines), *placed[TOP].size, sideways)
