"""Curves of how a difference grows, by depth and by step, as pieces of HTML that scale with the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, isfinite, log10

from backsight.traces.difference import Parted, shown
from backsight.traces.growth import Point

STYLE = """
.plot{display:grid;grid-template-columns:5.5em minmax(0,1fr);margin:8px 0 16px}
.plot h3{grid-column:1/-1;font-size:13px;margin:0 0 10px}
.plot .marks{position:relative;font-size:11.5px;line-height:1}
.plot .marks span{position:absolute;right:8px;transform:translateY(-50%);white-space:nowrap}
.plot svg{width:100%;height:130px;border-left:1px solid var(--edge);border-bottom:1px solid var(--edge);
overflow:visible}
.plot .ends{grid-column:2;display:flex;justify-content:space-between;gap:8px;font-size:11.5px;padding-top:4px}
.plot .ends span{min-width:0;overflow-wrap:anywhere}
.plot .keys{grid-column:2;display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12px;padding-top:4px}
.keys i{display:inline-block;width:14px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
.grid{stroke:var(--edge);stroke-width:1;vector-effect:non-scaling-stroke}
.line{fill:none;stroke-width:1.8;vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.dot{stroke-width:6;vector-effect:non-scaling-stroke;stroke-linecap:round}
.s0{stroke:var(--s0);background:var(--s0)}.s1{stroke:var(--s1);background:var(--s1)}
.s2{stroke:var(--s2);background:var(--s2)}.s3{stroke:var(--s3);background:var(--s3)}
"""
"""Needs the variables --edge, --s0 to --s3 and --same."""

WIDE, TALL = 1000.0, 100.0
_LEAST = 1e-8
_FLOOR = 15.0
"""Where what agrees to the last bit stands, above the axis: below every number."""

SERIES = (("loss", "loss"), ("module", "results of modules"), ("grad", "gradients"), ("weight", "weights"))


def color(relative: float) -> str:
    """Return a color from yellow to red, for what has nothing in common, and green for the same bits."""
    if not relative:
        return "var(--same)"
    reach = min(1.0, max(0.0, 1 + log10(min(relative, 1.0)) / 8))
    return f"hsl({52 - 52 * reach:.0f} 88% {62 - 14 * reach:.0f}%)"


def by_depth(points: Sequence[Point], title: str) -> str:
    """Return a bar for each point, in the order of the step; "" if nothing differs."""
    if not any(each.relative for each in points):
        return ""
    scale = _Scale(each.relative for each in points)
    each_wide = WIDE / len(points)
    bars = "".join(_bar(point, k * each_wide, each_wide, scale) for k, point in enumerate(points))
    first, last = points[0].name or "the model", points[-1].name or "the model"
    return _plot(title, scale, bars, (first, last) if len(points) > 1 else (first,))


def by_step(steps: Sequence[Parted]) -> str:
    """Return a line for the loss, and for the largest difference of modules, gradients and weights, over the steps."""
    lines = []
    for k, (what, name) in enumerate(SERIES):
        held = [(step.step, [each.relative for each in step.points if each.what == what]) for step in steps]
        line = [(at, max(found)) for at, found in held if found]
        if line:
            lines.append((k, name, line))
    if len(steps) < 2 or not any(value for *_, line in lines for _, value in line):
        return ""
    scale = _Scale(value for *_, line in lines for _, value in line)
    low, high = steps[0].step, steps[-1].step
    drawn = "".join(_line(k, name, line, (low, high), scale) for k, name, line in lines)
    keys = "".join(f'<span><i class="s{k}"></i>{escape(name)}</span>' for k, name, _ in lines)
    return _plot("By step: the largest of each", scale, drawn, (f"step {low:,}", f"step {high:,}"), keys)


class _Scale:
    """Powers of ten from the bottom to 1; the same bits stand at the bottom."""

    def __init__(self, values: Iterable[float]) -> None:
        positive = [each for each in values if each > 0 and isfinite(each)]
        self.low = max(-20, min(floor(log10(min([_LEAST, *positive]))), -1))

    def y(self, relative: float) -> float:
        if not relative:
            return TALL
        share = (log10(min(max(relative, 10.0**self.low), 1.0)) - self.low) / -self.low
        return (TALL - _FLOOR) * (1 - share)

    @property
    def marks(self) -> list[tuple[str, float]]:
        stride = ceil(-self.low / 4)
        powers = range(0, self.low - 1, -stride)
        return [("1" if power == 0 else f"1e−{-power}", self.y(10.0**power)) for power in powers]


def _bar(point: Point, left: float, wide: float, scale: _Scale) -> str:
    told = f"{point.name or 'the model'}: {shown(point.relative) if point.relative else 'bit-identical'}"
    top = scale.y(point.relative) if point.relative else TALL - _FLOOR / 2
    return (
        f'<rect x="{left + wide * 0.08:.2f}" y="{top:.2f}" width="{wide * 0.84:.2f}" height="{TALL - top:.2f}" '
        f'style="fill:{color(point.relative)}"><title>{escape(told)}</title></rect>'
    )


def _line(number: int, name: str, line: Sequence[tuple[int, float]], ends: tuple[int, int], scale: _Scale) -> str:
    places = [(WIDE * (at - ends[0]) / max(1, ends[1] - ends[0]), scale.y(value)) for at, value in line]
    path = " ".join(f"{x:.2f},{y:.2f}" for x, y in places)
    dots = "".join(
        f'<path class="dot s{number}" d="M{x:.2f} {y:.2f}h0"><title>'
        f"{escape(name)}, step {at:,}: {shown(value) if value else 'bit-identical'}</title></path>"
        for (x, y), (at, value) in zip(places, line, strict=True)
    )
    return f'<polyline class="line s{number}" points="{path}"/>{dots}'


def _plot(title: str, scale: _Scale, drawn: str, ends: Sequence[str], keys: str = "") -> str:
    lines = "".join(f'<path class="grid" d="M0 {y:.2f}H{WIDE:.0f}"/>' for _, y in scale.marks)
    marks = "".join(f'<span style="top:{y:.1f}%">{text}</span>' for text, y in [*scale.marks, ("same bits", TALL)])
    return (
        f'<figure class="plot"><h3>{escape(title)}</h3><div class="marks">{marks}</div>'
        f'<svg viewBox="0 0 {WIDE:.0f} {TALL:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}">{lines}{drawn}</svg>'
        f'<div class="ends">{"".join(f"<span>{escape(each)}</span>" for each in ends)}</div>'
        f"{f'<div class=keys>{keys}</div>' if keys else ''}</figure>"
    )
