"""The picture as a page: one file that needs no network, no server and no other file."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from backsight.drawing.caption import Entry, legend
from backsight.drawing.layout import Frame
from backsight.drawing.scene import Box, Scene
from backsight.drawing.svg import sample
from backsight.text.page import data, document, own, script, style
from backsight.text.palette import DARK, LIGHT, css, substituted

TOLD = 5000
"""In a page with more boxes than this, they do not tell their details: it would no longer be a page."""

SCRIPTS = ("layout.js", "nesting.js", "view.js", "hands.js")
_COLOURS = """\
body{background:$page;color:$ink}
header,footer{background:$frame;border-color:$edge}
header p,#say,#count{color:$soft}
input,button{border-color:$rim;background:$page}
.more{color:$soft}
#tip{background:$page;border-color:$rim;color:$ink;box-shadow:0 3px 12px #0004}
#side{background:$frame;border-color:$edge}
#side p:first-of-type{color:$soft}
.bs .origin>.n{stroke:$ink}
.bs .from>.n{stroke:$bad}
.bs .from>.w{stroke:$bad}
.bs .from>.a{fill:$bad}
.bs .to>.n{stroke:$untrained}
.bs .to>.w{stroke:$untrained}
.bs .to>.a{fill:$untrained}
.bs .hit>.n{stroke:$shared}
.bs .here>.n{stroke:$hot}
"""


def page(scene: Scene, tell: Callable[[Box], str] = str) -> str:
    """Return a page on which `scene` can be explored.

    No name in it can do harm: all of them are data, and the page's own policy forbids whatever comes from elsewhere.

    Args:
        scene: the picture; the page shows at first what it shows.
        tell: what a box tells when it is pointed at.
    """
    title = escape(scene.title)
    entries = "".join(_entry(entry) for line in legend(scene, scene.boxes) for entry in line)
    body = f"""<header><h1 title="{title}">{title}</h1><p>{escape(scene.summary)}</p><nav>
<span id="count" aria-live="polite"></span><input id="find" type="search" placeholder="find  /" aria-label="find">
<button id="open" title="o">open all</button><button id="close" title="c">close all</button>
<button id="fit" title="f">fit</button><button id="in" aria-label="zoom in" title="+">+</button>
<button id="out" aria-label="zoom out" title="-">−</button></nav></header>
<div id="middle"><svg id="stage" class="bs" role="group" aria-label="{title}"><g id="world"></g></svg>
<button id="above" class="more" hidden>▲ more above</button><button id="below" class="more" hidden>▼ more below</button>
<aside id="side" aria-label="the selected box" hidden></aside></div>
<footer>{entries}<span id="say" role="status"></span></footer>{_remarks(scene)}
<div id="tip" role="tooltip" hidden></div>
{data("scene", _data(scene, tell))}
{script(own(__package__, *SCRIPTS))}"""
    return document(scene.title, body, head=style(css() + own(__package__, "page.css") + _both(_COLOURS)))


def _both(colours: str) -> str:
    light, dark = substituted(colours, LIGHT), substituted(colours, DARK)
    return f"{light}@media screen and (prefers-color-scheme:dark){{\n{dark}}}\n"


def _data(scene: Scene, tell: Callable[[Box], str]) -> dict[str, Any]:
    """Return what the page's script reads: boxes without what is empty, links in one flat list."""
    details = tell if len(scene.boxes) <= TOLD else _brief
    return {
        "boxes": [_record(box, details) for box in scene.boxes],
        "links": [end for link in scene.links for end in link],
        "remarks": [remark.text for remark in scene.remarks],
    }


def _brief(box: Box) -> str:
    return box.path


def _record(box: Box, tell: Callable[[Box], str]) -> dict[str, Any]:
    record = {
        "parent": box.parent,
        "kind": box.kind if box.kind != "op" else "",
        "name": box.name,
        "op": box.op,
        "cls": box.cls,
        "shape": box.shape,
        "times": box.times if box.times > 1 else 0,
        "count": box.count if box.count > 1 else 0,
        "heat": box.heat,
        "amount": box.amount,
        "chips": [(chip.status, chip.text, *([1] if chip.hot else [])) for chip in box.chips],
        "state": box.state,
        "verdict": box.verdict,
        "root": box.root,
        "hot": int(box.hot),
        "shared": int(box.shared),
        "pins": box.pins,
        "open": int(box.opened),
        "inferred": int(box.inferred),
        "told": tell(box),
    }
    return {key: value for key, value in record.items() if (value and value != ()) or (key == "parent" and value == 0)}


def _entry(entry: Entry) -> str:
    """Return an entry of the legend."""
    if entry.pill:
        shape = f'<rect class="t {entry.pill}" x="1" y="1" width="20" height="11" rx="5.5"/>'
    elif entry.mark:
        shape = sample(Frame(1.5, 1.5, 20.0, 10.0), entry.mark)
    else:
        return f"<span>{escape(entry.words)}</span>"
    return f'<span><svg class="bs" width="23" height="13">{shape}</svg>{escape(entry.words)}</span>'


def _remarks(scene: Scene) -> str:
    items = "".join(f'<li value="{remark.number}">{escape(remark.text)}</li>' for remark in scene.remarks)
    return f'<ol id="remarks">{items}</ol>' if items else ""
