"""PNG, by whatever on this machine turns SVG into pixels."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from html import unescape

from backsight.drawing.metrics import text_width

SCALE = 2
"""Pixels for each unit of the picture: sharp on the screens of today."""


class NoRasterizer(RuntimeError):
    """Nothing is installed that turns an SVG into a PNG."""


def png(svg: str) -> bytes:
    """Return `svg` as a PNG, by cairosvg or resvg as Python packages, or by `rsvg-convert` or `resvg` as programs.

    Raises:
        NoRasterizer: if none of them is installed.
    """
    drawn = _by_cairosvg(svg) or _by_resvg(svg) or _by_program(svg)
    if drawn is None:
        raise NoRasterizer(
            "a .png needs a program that renders SVG, and none is installed: pip install cairosvg, or write .svg or "
            ".html, which any browser shows."
        )
    return drawn


def _by_cairosvg(svg: str) -> bytes | None:
    try:
        import cairosvg
    except (ImportError, OSError):  # OSError: the package is there but its C library is not
        return None
    return bytes(cairosvg.svg2png(bytestring=spaced(svg).encode(), scale=SCALE))


_TEXT = re.compile(r'x="([-\d.]+)"( y="[^"]+" class="([^"]+)") textLength="([\d.]+)" lengthAdjust="\w+">([^<]+)')


def spaced(svg: str) -> str:
    """Return `svg` with a place for each letter: cairosvg knows no `textLength`, and rounds letters' widths."""
    return _TEXT.sub(_by_letter, svg)


def _by_letter(found: re.Match[str]) -> str:
    x, attributes, style, width, text = found.groups()
    bold = bool({"name", "h"} & set(style.split()))
    ends = list(itertools.accumulate(text_width(letter, 1.0, bold=bold) for letter in unescape(text)))
    scale = float(width) / (ends[-1] or 1.0)
    places = " ".join(f"{float(x) + end * scale:.2f}" for end in [0.0, *ends[:-1]])
    return f'x="{places}"{attributes}>{text}'


def _by_resvg(svg: str) -> bytes | None:
    try:
        import resvg_py
    except ImportError:
        return None
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=SCALE))


def _by_program(svg: str) -> bytes | None:
    if rsvg := shutil.which("rsvg-convert"):
        command = [rsvg, "--zoom", str(SCALE), "--format", "png"]
    elif resvg := shutil.which("resvg"):
        command = [resvg, "--zoom", str(SCALE), "-", "-c"]
    else:
        return None
    return subprocess.run(command, input=svg.encode(), capture_output=True, check=True).stdout
