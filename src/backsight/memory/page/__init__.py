"""A step's memory as one page: a chart to point at, and what was alive at that moment. It loads nothing."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from backsight.memory.colors import DARK, LIGHT
from backsight.memory.curves import by_kind, passes, seconds, thinned
from backsight.memory.explain import label
from backsight.memory.table import about
from backsight.text import amount
from backsight.text.page import data, document, own, script, style

if TYPE_CHECKING:
    from backsight.memory.ledger import Block, History
    from backsight.memory.timeline import StepMemory

POINTS = 3000
"""Moments that the chart shows."""

BLOCKS = 800
"""Storages that are told by name; the largest."""


def page(memory: StepMemory) -> str:
    """Return the page as text."""
    sentence = str(memory.at_peak)
    head, _, parts = sentence.partition(": ")
    listed = "".join(f"<li>{_words(part)}</li>" for part in parts.split("; "))
    colors = "".join(f"--{_slug(kind)}:{LIGHT[kind]};" for kind in LIGHT)
    dark = "".join(f"--{_slug(kind)}:{DARK[kind]};" for kind in DARK)
    look = f":root{{{colors}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{own(__package__, 'page.css')}"
    body = (
        f"<main><h1>{_words(head[:1].upper() + head[1:])}</h1><ul class=parts>{listed}</ul>"
        f"<p class=about>{escape(about(memory))}</p>"
        '<div id=chart tabindex=0 role=img aria-label="bytes by kind over the time of the step"></div>'
        "<p class=hint>Point at a moment to see what was alive; click to hold it, drag to enlarge, double-click for "
        "all. A click on a kind hides it.</p>"
        "<div id=legend></div><h2 id=moment></h2><div class=scroll><table><thead><tr><th>tensor<th class=n>bytes"
        "<th>shape<th>kind<th>module<th>made at<th>autograd node<th class=n>lives</tr></thead>"
        "<tbody id=alive></tbody></table></div>"
        f"</main>{data('data', timeline(memory.history))}{script(own(__package__, 'page.js'))}"
    )
    return document(f"Memory of a step: peak {amount(memory.peak)}", body, head=style(look))


def _words(text: str) -> str:
    """Return text as HTML, with what stands in backquotes as code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))


def timeline(history: History) -> dict[str, Any]:
    """Return what the script draws: times in milliseconds, bytes by kind at each, phases and storages."""
    curves, times = by_kind(history), seconds(history) * 1e3
    kept = thinned(np.sum(list(curves.values()), axis=0), POINTS)
    largest = sorted(history.blocks, key=lambda block: -block.bytes)[:BLOCKS]
    return {
        "times": [round(float(t), 4) for t in times[kept]],
        "end": (history.ended - history.began) / 1e6,
        "kinds": [{"kind": k, "slug": _slug(k), "bytes": c[kept].tolist()} for k, c in curves.items() if c.any()],
        "peak": {"at": int(np.searchsorted(kept, history.peak_at + 1)), "bytes": history.peak},
        "spans": [
            [span.phase, (span.began - history.began) / 1e6, (span.ended - history.began) / 1e6]
            for span in history.spans
        ],
        "passes": [[name, began * 1e3, ended * 1e3] for name, began, ended in passes(history)],
        "blocks": [_block(block, times) for block in largest],
        "rest": len(history.blocks) - len(largest),
    }


def _block(block: Block, times: Any) -> list[Any]:
    """Return a storage as the script reads it; a birth before the start is at -1, and no death is null."""
    born = -1 if block.born < 0 else float(times[block.born + 1])
    died = None if block.died is None else float(times[block.died + 1])
    shape = "×".join(map(str, block.shape)) if block.shape else ""
    what = [label(block), block.bytes, shape, block.dtype, block.kind, block.module, block.source, block.node]
    return [*what, born, died]


def _slug(kind: str) -> str:
    return kind.replace(" ", "-")
