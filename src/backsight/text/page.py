"""The one shell of all pages: a document that holds its style, its script and its data, and loads nothing."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"
"""What a browser lets a page do that has its style and script in it: nothing comes from elsewhere."""

_HARMFUL = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028"})


def document(title: str, body: str, *, head: str = "", policy: str = POLICY) -> str:
    """Return a page; `title` is text, `head` and `body` are HTML."""
    allowed = f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">{allowed}
<title>{escape(title)}</title>{head}</head>
<body>{body}</body></html>
"""


def style(text: str) -> str:
    """Return a style sheet as an element."""
    return f"<style>{text}</style>"


def script(text: str) -> str:
    """Return a script of our own as an element."""
    return f'<script>"use strict";\n{text}</script>'


def data(element: str, value: Any) -> str:
    """Return JSON that a script finds by the id of its element; whatever names are in it, it is data.

    Raises:
        ValueError: if it holds NaN or an infinity, which JSON does not know.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).translate(_HARMFUL)
    return f'<script type="application/json" id="{element}">{text}</script>'


@cache
def own(package: str, *names: str) -> str:
    """Return files of a package one after the other, without indentation and comments on lines of their own.

    A line that ends in an opening bracket, a comma or a semicolon goes on, unless a comment may stand between. Spaces
    around operators and brackets that no prose has are for people.
    """
    texts = (files(package).joinpath(name).read_text(encoding="utf-8") for name in names)
    lines = (line.strip() for text in texts for line in text.split("\n"))
    kept = (line for line in lines if line and not line.startswith("//"))
    whole = "".join(line if line[-1] in "([{,;" and "//" not in line else f"{line}\n" for line in kept)
    return re.sub(r" (=>|[=!]==|&&|\|\||[<>+*-]=) |(?<=\)) (?=\{)", r"\1", whole)
