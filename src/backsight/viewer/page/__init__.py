"""The page: its document, style and script. The viewer serves them; a report holds them and its answers in one file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from backsight.drawing import css

SCRIPTS = (
    "numbers.js",
    "elements.js",
    "source.js",
    "palette.js",
    "chart.js",
    "heatmap.js",
    "tensor.js",
    "graph.js",
    "memory.js",
    "runs.js",
    "findings.js",
    "compare.js",
    "about.js",
    "app.js",
)
"""The parts of the script, in their order: each uses what those before it define."""


_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20' stroke='%231666a8' "
    "stroke-width='1.8'%3E%3Cpath d='M10 2v16M10 2l6 3-6 3z' fill='%231666a8'/%3E"
    "%3Cpath d='M2 18c5 0 8-3 8-8' fill='none'/%3E%3C/svg%3E"
)


def document(live: bool, title: str = "backsight") -> str:
    """Return the page as the viewer serves it."""
    assert live
    return _document(title, '<link rel="stylesheet" href="viewer.css">', '<script src="viewer.js"></script>', "")


def report(title: str, answers: Mapping[str, Any]) -> str:
    """Return one file that shows these answers, by their keys as `source.js` spells them, and fetches nothing.

    The only script that its policy lets run is our own, by its hash; whatever a name holds is data.
    """
    data = json.dumps(answers, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for harmful, harmless in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028")):
        data = data.replace(harmful, harmless)
    code, look = script(), style()
    policy = f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(look)}; img-src data:; base-uri 'none'"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{look}</style>'
    held = f'<script type="application/json" id="answers">{data}</script>'
    return _document(title, head, f"<script>{code}</script>", held)


@cache
def script() -> str:
    """Return the script."""
    parts = "\n".join(_own(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


@cache
def style() -> str:
    """Return the style sheet."""
    return _own("viewer.css") + css()


def _document(title: str, head: str, tail: str, held: str) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">{head}
<link rel="icon" href="{_ICON}"><title>{escape(title)}</title></head>
<body><div id="app"><noscript>This page needs JavaScript.</noscript></div>{held}{tail}</body></html>
"""


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
