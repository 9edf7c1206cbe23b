"""The page: its document, style and script. The viewer serves them; a report holds them and its answers in one file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from backsight.text.page import data, document, own
from backsight.text.palette import css

SCRIPTS = (
    "numbers.js",
    "theme.js",
    "elements.js",
    "markdown.js",
    "source.js",
    "palette.js",
    "search.js",
    "export.js",
    "chart.js",
    "curves.js",
    "chosen.js",
    "metrics.js",
    "layers.js",
    "heatmap.js",
    "ridges.js",
    "magnitudes.js",
    "spreads.js",
    "tensor.js",
    "selected.js",
    "pictured.js",
    "extremes.js",
    "graph.js",
    "memory.js",
    "runs.js",
    "findings.js",
    "verdict.js",
    "partings.js",
    "compare.js",
    "about.js",
    "help.js",
    "app.js",
)
"""The parts of the script, in their order: each uses what those before it define."""


_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20' stroke='%231666a8' "
    "stroke-width='1.8'%3E%3Cpath d='M10 2v16M10 2l6 3-6 3z' fill='%231666a8'/%3E"
    "%3Cpath d='M2 18c5 0 8-3 8-8' fill='none'/%3E%3C/svg%3E"
)


@cache
def served() -> str:
    """Return the page as the viewer serves it, which sends the policy itself.

    Its style and script are in it, as in a report: what is fetched has to wait for its turn beside the answers.
    """
    head = f'<script id="ahead">{_ahead()}</script><style>{style()}</style>'
    return _document("backsight", head, f"<script>{script()}</script>", "")


@cache
def sources() -> str:
    """Return what the policy of the page that is served says so that its scripts and its style are the only ones."""
    return f"script-src {_hash(_ahead())} {_hash(script())}; style-src {_hash(style())}"


def report(title: str, answers: Mapping[str, Any]) -> str:
    """Return one file that shows these answers, by their keys as `source.js` spells them, and fetches nothing.

    The only script that its policy lets run is our own, by its hash; whatever a name holds is data.
    """
    code, look = script(), style()
    policy = f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(look)}; img-src data:; base-uri 'none'"
    return _document(title, f"<style>{look}</style>", f"{data('answers', answers)}<script>{code}</script>", policy)


@cache
def _ahead() -> str:
    """Return the script that asks for what is shown first, before all else."""
    return own(__package__, "ahead.js")


@cache
def script() -> str:
    """Return the script."""
    return f'"use strict";\n(() => {{\n{own(__package__, *SCRIPTS)}}})();\n'


@cache
def style() -> str:
    """Return the style sheet, without the spaces that are for people."""
    return re.sub(r"(?<=[:;,{}])\s+|\s+(?=[{}])|\n", "", own(__package__, "viewer.css") + css())


def _document(title: str, head: str, tail: str, policy: str) -> str:
    body = f'<div id="app"><noscript>This page needs JavaScript.</noscript></div>{tail}'
    return document(title, body, head=f'{head}<link rel="icon" href="{_ICON}">', policy=policy)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
