"""The picture as SVG: one string that needs no font, script or other file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from html import escape

from backsight.drawing import card as cards
from backsight.drawing.caption import SAMPLE_HEIGHT, Caption, caption
from backsight.drawing.card import Card, Tag, Text, card, measured
from backsight.drawing.layout import Frame, Page, fitting
from backsight.drawing.layout.layered import Point
from backsight.drawing.layout.nesting import HEAD, STACKED
from backsight.drawing.look import Direction
from backsight.drawing.places import nodes_by_box, spelled
from backsight.drawing.scene import Box, Scene
from backsight.text.palette import Theme, css

MARGIN = 20.0
ARROW = 7.0


def svg(
    scene: Scene, tell: Callable[[Box], str] = str, *, theme: Theme | None = "auto", direction: Direction = "auto"
) -> str:
    """Return `scene` as SVG.

    Args:
        scene: the picture.
        tell: what a box says when the pointer rests on it.
        theme: "light" or "dark", "auto" for what the reader's system prefers, or None where the page has `css` itself.
        direction: "down", "right", or "auto" for down unless right fits a page much better.
    """
    known = {index: card(scene.boxes[index]) for index in scene.shown}
    nodes = nodes_by_box(scene)
    page = fitting(scene, lambda box: (known[box.index].width, known[box.index].height), _head_width, direction)
    words = caption(scene, max(page.width, 340.0))
    width = max(page.width, words.width) + 2 * MARGIN
    top = MARGIN + words.above
    height = top + page.height + words.below + MARGIN
    left = (width - page.width) / 2
    runs = "left to right" if page.sideways else "top to bottom"
    said = f"{scene.title}: {scene.summary}. Computation runs from {runs}."
    style = f"<style>{css(theme)}</style>" if theme is not None else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bs" role="img" aria-label="{escape(said)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>{_text(scene.title)}</title><desc>{_text(said)}</desc>{style}",
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>',
        *_captions(words, top + page.height),
        f'<g transform="translate({_n(left)} {_n(top)})">',
        *_frames(scene, page, known),
        *_lines(scene, page),
        *(_box(scene.boxes[i], page.frames[i], known[i], nodes[i], tell(scene.boxes[i])) for i in known),
        "</g></svg>",
    ]
    return "\n".join(parts)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    return escape(text, quote=False)


def _head_width(box: Box) -> float:
    """Return how wide an open group must be for its name and amount."""
    cls = measured(box.cls, "op")[1] + 7 if box.cls else 0
    return measured(cards.title(box), "name")[1] + cls + measured(each(box), "amount")[1] + 40


def each(box: Box) -> str:
    """Return what the corner of an open group says."""
    amount, times, _ = box.amount.partition(" × ")
    return f"{amount} each" if times else amount


def _captions(words: Caption, below: float) -> Iterable[str]:
    yield f'<g transform="translate({_n(MARGIN)} {_n(MARGIN)})">'
    for k, text in enumerate(words.head):
        yield _written(text, "h" if not k else text.face)
    yield "</g>"
    yield f'<g transform="translate({_n(MARGIN)} {_n(below)})">'
    for part in words.foot:
        if isinstance(part, Text):
            yield _written(part)
        elif isinstance(part, Tag):
            yield _tag(part)
        else:
            yield sample(Frame(part.x, part.y, part.width, SAMPLE_HEIGHT), part.mark)
    yield "</g>"


def sample(frame: Frame, mark: str) -> str:
    """Return a small box that shows a mark of the legend."""
    style = {"closed": "n g", "shared": "ring"}.get(mark, f"n {mark}")
    return f'<g class="{mark if mark in ("hot", "bad") else ""}">{_rect(frame, style, 3)}</g>'


def _written(text: Text, style: str = "") -> str:
    """Return a text that is as wide as was reckoned, whatever font the reader has."""
    if not text.text:
        return ""
    title = f"<title>{_text(text.full)}</title>" if text.full else ""
    return (
        f'<text x="{_n(text.x)}" y="{_n(text.y)}" class="{style or text.face}" textLength="{_n(text.width)}" '
        f'lengthAdjust="spacingAndGlyphs">{_text(text.text)}{title}</text>'
    )


def _tag(tag: Tag) -> str:
    style = f"t {tag.style}{' hot' if tag.hot else ''}"
    place = f'x="{_n(tag.x)}" y="{_n(tag.y)}" width="{_n(tag.width)}" height="{_n(cards.CHIP_HEIGHT)}" rx="7.5"'
    title = f"<title>{_text(tag.title)}</title>" if tag.title else ""
    nodes = f' data-node="{spelled(tag.nodes)}"' if tag.nodes else ""
    return f'<g{nodes}><rect class="{style}" {place}/>{_written(tag.text)}{title}</g>'


def _rect(frame: Frame, style: str, rx: int, shift: float = 0.0) -> str:
    place = f'x="{_n(frame.x + shift)}" y="{_n(frame.y + shift)}"'
    return f'<rect class="{style}" {place} width="{_n(frame.width)}" height="{_n(frame.height)}" rx="{rx}"/>'


def _frames(scene: Scene, page: Page, known: dict[int, Card]) -> Iterable[str]:
    """Yield the open groups, outer ones first."""
    depth: dict[int, int] = {}
    for index in sorted(page.frames):
        box, frame = scene.boxes[index], page.frames[index]
        depth[index] = depth[box.parent] + 1 if box.parent is not None else 0
        if index not in known:
            style = f"f{' odd' * (depth[index] % 2)}{' inferred' * box.inferred}"
            for k in (2, 1, 0) if box.times > 1 else (0,):
                yield _rect(frame, style, 8, k * STACKED)
            yield from _bar(box, frame)


def _bar(box: Box, frame: Frame) -> Iterable[str]:
    """Yield the bar of an open group, with its name and amount."""
    name, width, full = measured(cards.title(box), "name")
    amount, amount_width, _ = measured(each(box), "amount")
    yield f'<path class="bar" data-group="{box.index}" d="{bar(frame)}"/>'
    yield _written(Text(frame.x + 10, frame.y + 16, name, "name", width, full or box.path), "name head")
    cls, cls_width, _ = measured(box.cls, "op")
    yield _written(Text(frame.x + 17 + width, frame.y + 16, cls, "op", cls_width))
    right = frame.x + frame.width - 10 - amount_width
    yield _written(Text(right, frame.y + 16, amount, "amount", amount_width), "amount head")


def bar(frame: Frame) -> str:
    """Return the outline of the bar at the top of a frame."""
    return f"M{_n(frame.x)} {_n(frame.y + HEAD)}v-16a8 8 0 0 1 8-8h{_n(frame.width - 16)}a8 8 0 0 1 8 8v16z"


def _lines(scene: Scene, page: Page) -> Iterable[str]:
    """Yield the lines, those on the highlighted path last, so that they lie on top."""
    drawn: list[tuple[bool, str]] = []
    for line in page.lines:
        hot = any(scene.boxes[a].hot and scene.boxes[b].hot for a, b in line.links)
        style = " hot" if hot else ""
        *points, (x, y) = line.points
        back = ARROW - 1 if line.arrow else 0.0
        if page.sideways:
            text = f'<path class="w{style}" d="{_route_right([*points, (x - back, y)])}"/>'
            tip = f"M{_n(x - ARROW)} {_n(y - 3.5)}v7L{_n(x)} {_n(y)}z"
        else:
            text = f'<path class="w{style}" d="{_route([*points, (x, y - back)])}"/>'
            tip = f"M{_n(x - 3.5)} {_n(y - ARROW)}h7L{_n(x)} {_n(y)}z"
        if line.arrow:
            text += f'<path class="a{style}" d="{tip}"/>'
        drawn.append((hot, text))
    return (text for _, text in sorted(drawn, key=lambda pair: pair[0]))


def _route(points: list[Point]) -> str:
    out = f"M{_n(points[0][0])} {_n(points[0][1])}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if abs(x0 - x1) < 0.05:
            out += f"V{_n(y1)}"
        else:
            middle = (y0 + y1) / 2
            out += f"C{_n(x0)} {_n(middle)} {_n(x1)} {_n(middle)} {_n(x1)} {_n(y1)}"
    return out


def _route_right(points: list[Point]) -> str:
    out = f"M{_n(points[0][0])} {_n(points[0][1])}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if abs(y0 - y1) < 0.05:
            out += f"H{_n(x1)}"
        else:
            middle = (x0 + x1) / 2
            out += f"C{_n(middle)} {_n(y0)} {_n(middle)} {_n(y1)} {_n(x1)} {_n(y1)}"
    return out


def _box(box: Box, frame: Frame, own: Card, nodes: Iterable[int], told: str) -> str:
    """Return a box that is shown as one, with everything that stands on it."""
    marks = ["hot"] * box.hot + ["bad"] * (box.verdict in ("bad", "gone"))
    style = f"n{' g' if box.is_group else ''}{f' h{box.heat}' if box.heat else ''}"
    copies = (2, 1, 0) if box.times > 1 else (0,)
    home = Frame(0.0, 0.0, frame.width, frame.height)
    radius = 5 if box.kind in ("op", "leaf") else 8
    place = f'data-box="{box.index}" data-node="{spelled(nodes)}" transform="translate({_n(frame.x)} {_n(frame.y)})"'
    parts = [f'<g class="{" ".join(marks)}" {place}>']
    parts += [_rect(Frame(-3.5, -3.5, frame.width + 7, frame.height + 7), "ring", radius + 3)] if box.shared else []
    parts += [_rect(home, style, radius, k * STACKED) for k in copies]
    parts += map(_written, own.texts)
    parts += map(_tag, own.tags)
    if box.pins:
        pin = cards.tag("pin", ",".join(map(str, box.pins)))
        parts.append(_tag(pin.moved(-pin.width / 2, -cards.CHIP_HEIGHT / 2)))
    parts.append(f"<title>{_text(told)}</title></g>")
    return "".join(parts)
