"""A difference as one page of HTML: findings, both lines side by side, and the steps coloured by distance."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import log10

from backsight.findings.printing.page import to_html
from backsight.text.page import document, style
from backsight.traces.difference import Difference, Parted, shown
from backsight.traces.growth import Point
from backsight.traces.judging import Judged
from backsight.traces.records import Place

_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:24px;max-width:80em;background:#fff;color:#1b1f24}
@media(prefers-color-scheme:dark){body{background:#14171b;color:#e4e8ec}}
h1{font-size:18px}h2{font-size:15px;margin:24px 0 4px}table{border-collapse:collapse;margin:8px 0}
td,th{text-align:left;padding:2px 10px 2px 0;vertical-align:top;font-variant-numeric:tabular-nums}
code{font:12.5px ui-monospace,Menlo,Consolas,monospace}.soft{opacity:.7}
.far{display:inline-block;width:4em;height:.8em;border-radius:3px;margin-right:6px;border:1px solid #8884}
"""

_MOST = 400


def page_of(difference: Difference) -> str:
    """Return the page; it loads nothing, and every name in it is text."""
    title = f"backsight diff: {difference.a} and {difference.b}"
    return document(title, "".join(_body(difference)), head=style(_STYLE))


def _body(difference: Difference) -> Iterator[str]:
    yield f"<h1>{escape(difference.text().partition(chr(10))[0])}</h1>"
    yield f"<p>A is <code>{escape(difference.a)}</code>, B is <code>{escape(difference.b)}</code>.</p>"
    for finding in difference.findings:
        yield to_html(finding)
    for step in difference.steps:
        yield from _step(step)
    for note in difference.notes:
        yield f'<p class="soft">{escape(note)}</p>'


def _step(step: Parted) -> Iterator[str]:
    yield (
        f"<h2>Step {step.step}</h2><p>{step.agree:,} operations agree to the last bit, {step.inherited:,} differ "
        f"only because their inputs do, {step.only_a:,} are only in A, {step.only_b:,} only in B.</p>"
    )
    if step.origins:
        yield "<table><tr><th>class</th><th>operation</th><th>A</th><th>B</th><th>difference</th></tr>"
        yield from map(_origin, step.origins[:_MOST])
        yield "</table>"
    if any(each.relative for each in step.points):
        yield "<table><tr><th>quantity</th><th></th><th>relative difference</th></tr>"
        yield from map(_point, step.points[:_MOST])
        yield "</table>"


def _origin(judged: Judged) -> str:
    origin = judged.origin
    first, second = origin.places
    named = origin.a or next(iter((*origin.only_a, *origin.only_b)), None)
    what = f"{named.op} {named.module}" if named is not None else ", ".join(origin.names[:3])
    cells = (judged.cls, what, _line(first), _line(second), shown(origin.apart.relative))
    return "<tr>" + "".join(f"<td><code>{escape(cell)}</code></td>" for cell in cells) + "</tr>"


def _line(place: Place) -> str:
    return f"{place} {place.text}" if place else ""


def _point(point: Point) -> str:
    what = f"{point.what} {point.name or 'of the model'}" if point.what != "loss" else "loss"
    mark = f'<span class="far" style="background:{_color(point.relative)}"></span>'
    told = shown(point.relative) if point.relative else "bit-identical"
    return f"<tr><td><code>{escape(what)}</code></td><td>{mark}</td><td>{told}</td></tr>"


def _color(relative: float) -> str:
    """Return a color from white, for the same bits, over yellow to red, for what has nothing in common."""
    if not relative:
        return "#2da44e33"
    reach = min(1.0, max(0.0, 1 + log10(min(relative, 1.0)) / 8))
    return f"hsl({60 - 60 * reach:.0f} 90% {80 - 30 * reach:.0f}%)"
