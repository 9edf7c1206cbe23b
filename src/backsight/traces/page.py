"""A difference as one page: findings, both lines side by side, the graph colored by distance, curves of its growth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from math import isfinite

from backsight.findings.printing.page import to_html
from backsight.text import counted
from backsight.text.page import document, style
from backsight.traces import curves
from backsight.traces.difference import Difference, Parted, counts, headline, shown
from backsight.traces.growth import Point
from backsight.traces.judging import Judged
from backsight.traces.records import Place, Variables

_STYLE = """
:root{--page:#fff;--ink:#1b1f24;--soft:#5c6670;--edge:#d5dbe1;--panel:#f6f8fa;--apart:#ffd9b8;--same:#7fbf8f;
--semantics:#b3261e;--precision:#8a5a00;--noise:#0b57d0;--s0:#0b57d0;--s1:#b35900;--s2:#b0136b;--s3:#1a7f37}
@media(prefers-color-scheme:dark){:root{--page:#14171b;--ink:#e4e8ec;--soft:#98a3ae;--edge:#333a42;--panel:#1b2026;
--apart:#63401f;--same:#3c7a4c;--semantics:#f2867e;--precision:#e0b050;--noise:#7cacf8;--s0:#7cacf8;--s1:#f0a35e;
--s2:#ff7fc0;--s3:#5fce7c}}
body{font:14px/1.5 system-ui,sans-serif;margin:0 auto;padding:20px 24px 48px;max-width:1400px;background:var(--page);
color:var(--ink)}
h1{font-size:19px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 4px}p{margin:4px 0 10px}
code,.lines td{font:12.5px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.soft{color:var(--soft)}.semantics{color:var(--semantics)}.precision{color:var(--precision)}.noise{color:var(--noise)}
.wide{display:grid;gap:8px 32px}
@media(min-width:900px){.wide{grid-template-columns:minmax(0,3fr) minmax(0,2fr);align-items:start}
.curves{position:sticky;top:12px}}
figure{margin:0;min-width:0}figure h3,.pairs h3{font-size:13px;margin:8px 0 6px}
.picture{overflow:auto;border:1px solid var(--edge);border-radius:8px;text-align:center}
.picture svg{display:inline-block}.bs .page{fill:none}
.pair{border:1px solid var(--edge);border-radius:8px;margin:0 0 10px;overflow:hidden}
.pair header{padding:5px 12px;background:var(--panel);border-bottom:1px solid var(--edge);overflow-wrap:anywhere}
.pair header b{margin-right:8px}.pair header span{margin-left:8px}
.sides{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr)}
@media(max-width:720px){.sides{grid-template-columns:minmax(0,1fr)}body{padding:14px 12px 40px}}
.side{padding:6px 12px 8px}.side+.side{border-left:1px solid var(--edge)}
@media(max-width:720px){.side+.side{border-left:0;border-top:1px solid var(--edge)}}
.side p{margin:0;font-size:12.5px}.side pre{margin:2px 0 0;white-space:pre-wrap;overflow-wrap:anywhere;
font:12.5px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.side mark{background:var(--apart);color:inherit;border-radius:2px}
table{border-collapse:collapse;margin:8px 0}
td,th{text-align:left;padding:2px 10px 2px 0;vertical-align:top;font-variant-numeric:tabular-nums}
summary{cursor:pointer;margin:4px 0}.far{display:inline-block;width:3em;height:.8em;border-radius:3px}
"""

_MOST = 400
_PAIRS = 8
"""Origins of a step that are shown with both lines; the others are counted."""


def page_of(difference: Difference) -> str:
    """Return the page; it loads nothing, and every name in it is text."""
    from backsight.text.palette import css

    title = f"backsight diff: {difference.a} and {difference.b}"
    return document(title, "".join(_body(difference)), head=style(css() + _STYLE + curves.STYLE))


def _body(difference: Difference) -> Iterator[str]:
    told = headline(difference)
    yield f"<h1>{escape(told[:1].upper() + told[1:])}</h1>"
    yield f'<p class="soft">A is <code>{escape(difference.a)}</code>, B is <code>{escape(difference.b)}</code>.</p>'
    for finding in difference.findings:
        yield to_html(finding)
    yield curves.by_step(difference.steps)
    decisive = next((step for step in difference.steps if difference.origin in step.origins), None)
    for step in difference.steps:
        yield from _step(step, difference.called, is_open=step is (decisive or difference.steps[0]))
    for note in difference.notes:
        yield f'<p class="soft">{escape(note)}</p>'


def _step(step: Parted, called: tuple[Variables, Variables], is_open: bool) -> Iterator[str]:
    """Yield a step; open where the trainings diverge."""
    yield f"<details{' open' * is_open}><summary><b>Step {step.step:,}</b>: {escape(_counts(step))}</summary>"
    if step.origins:
        yield '<section class="pairs"><h3>Where it begins, both programs side by side</h3>'
        yield from (_pair(each, called) for each in step.origins[:_PAIRS])
        if (more := len(step.origins) - _PAIRS) > 0:
            yield f'<p class="soft">And {counted(more, "more place")}.</p>'
        yield "</section>"
    yield '<div class="wide">'
    if picture := _picture(step):
        yield picture
    yield '<div class="curves">'
    for what, title in (
        ("module", "Results of modules, in forward order"),
        ("grad", "Gradients"),
        ("weight", "Weights"),
    ):
        yield curves.by_depth([each for each in step.points if each.what == what][:_MOST], title)
    yield "</div></div>"
    if any(each.relative for each in step.points):
        yield "<details><summary>The numbers</summary><table>"
        yield "<tr><th>quantity</th><th></th><th>relative difference</th></tr>"
        yield from map(_point, step.points[:_MOST])
        yield "</table></details>"
    yield "</details>"


def _counts(step: Parted) -> str:
    if not any((step.agree, step.inherited, step.only_a, step.only_b)):  # of all ranks together
        return f"{counted(len(step.points), 'value')} compared."
    alone = "".join(f", {n:,} only in {name}" for name, n in (("A", step.only_a), ("B", step.only_b)) if n)
    return f"{counts(step)}{alone}."


def _picture(step: Parted) -> str:
    """Return the graph, colored by distance; "" if there is none, or nothing in it differs."""
    picture = step.picture
    if picture is None or not (picture.first or picture.forward or picture.backward):
        return ""
    svg = picture.svg("The trainings diverge here.")
    what = "how far apart gradients are" if picture.backwards else "how far apart results are"
    return (
        f'<figure><h3>Where it spreads: {what}</h3><div class="picture" tabindex="0">{svg}</div></figure>'
        if svg
        else ""
    )


def _pair(judged: Judged, called: tuple[Variables, Variables]) -> str:
    origin = judged.origin
    named = next(iter((*origin.only_a, *origin.only_b)), None) or origin.a
    what = ", ".join(map(called[0].held, origin.names[:3]))
    if named is not None:
        module = called[not origin.only_a and bool(origin.only_b)](named.module) if named.module else ""
        what = f"{named.short} in {module}" if module else named.short
    phase = f", {origin.phase}" if origin.kind != "start" else ""
    far = origin.apart.relative
    said = f"relative difference {shown(far)}" if isfinite(far) else shown(far)
    first, second = origin.places
    alone = (bool(origin.only_a) and not origin.only_b, bool(origin.only_b) and not origin.only_a)
    told = [" only" if mine else " (what follows)" if theirs else "" for mine, theirs in (alone, alone[::-1])]
    texts = (
        _marked(first.text, second.text)
        if first and second and not any(alone)
        else map(escape, (first.text, second.text))
    )
    sides = zip("AB", (first, second), texts, told, strict=True)
    return (
        f'<article class="pair"><header><b class="{judged.cls}">{judged.cls}</b><code>{escape(what)}</code>'
        f'<span class="soft">{escape(said + phase)}</span></header><div class="sides">'
        f"{''.join(_side(*each) for each in sides)}</div></article>"
    )


def _side(name: str, place: Place, text: str, told: str) -> str:
    where = f"<code>{escape(str(place))}</code>" if place else "no line of the program"
    return f'<div class="side"><p class="soft"><b>{name}{told}</b> {where}</p><pre>{text}</pre></div>'


def _marked(first: str, second: str) -> Sequence[str]:
    """Return two lines of code as HTML, with what differs between them marked."""
    words: list[list[str]] = [re.findall(r"\d[\w.]*|\w+|\s+|[^\w\s]", each) for each in (first, second)]
    found = ["", ""]
    for tag, *ends in SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes():
        for side, (start, end) in enumerate((ends[:2], ends[2:])):
            text = escape("".join(words[side][start:end]))
            found[side] += text if tag == "equal" or not text else f"<mark>{text}</mark>"
    return found


def _point(point: Point) -> str:
    what = f"{point.what} {point.name or 'of the model'}" if point.what != "loss" else "loss"
    mark = f'<span class="far" style="background:{curves.color(point.relative)}"></span>'
    told = shown(point.relative) if point.relative else "bit-identical"
    return f"<tr><td><code>{escape(what)}</code></td><td>{mark}</td><td>{told}</td></tr>"
