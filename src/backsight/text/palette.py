"""Colours and faces of pictures, light and dark, as CSS that needs no variables: rasterizers know none."""

from __future__ import annotations

from string import Template
from typing import Literal

Theme = Literal["auto", "light", "dark"]

FONT = "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', sans-serif"

LIGHT = {
    "page": "#ffffff",
    "ink": "#17202e",
    "soft": "#56637a",
    "frame": "#f3f6fb",
    "frame2": "#e9eef7",
    "bar": "#d9e2f0",
    "edge": "#c3cddd",
    "line": "#7a879b",
    "rim": "#9aa6b8",
    "group": "#3c4c66",
    "hot": "#c2185b",
    "shared": "#6d3fc0",
    "bad": "#c62828",
    "heat0": "#ffffff",
    "heat1": "#fff6df",
    "heat2": "#ffe3ad",
    "heat3": "#ffc46b",
    "heat4": "#ff9d3c",
    "trained": "#2e7d32",
    "trained_ink": "#ffffff",
    "untrained": "#1257b0",
    "untrained_fill": "#ffffff",
    "frozen": "#566274",
    "frozen_fill": "#e3e8ef",
    "overwritten": "#c62828",
    "overwritten_fill": "#ffe9e7",
    "unknown": "#4a5568",
    "unknown_fill": "#e8edf4",
}
DARK = {
    "page": "#10151d",
    "ink": "#eef2f8",
    "soft": "#b0bccd",
    "frame": "#171e29",
    "frame2": "#1e2735",
    "bar": "#2b3850",
    "edge": "#36435a",
    "line": "#8595ad",
    "rim": "#5b6a82",
    "group": "#a9b9d2",
    "hot": "#ff6fa5",
    "shared": "#b79bff",
    "bad": "#ff7b72",
    "heat0": "#232d3c",
    "heat1": "#38301f",
    "heat2": "#55401a",
    "heat3": "#6f4d14",
    "heat4": "#985a08",
    "trained": "#3fa34d",
    "trained_ink": "#08130a",
    "untrained": "#7db4ff",
    "untrained_fill": "#0e2038",
    "frozen": "#b4bfce",
    "frozen_fill": "#323d4e",
    "overwritten": "#ff8f86",
    "overwritten_fill": "#401815",
    "unknown": "#c3cedd",
    "unknown_fill": "#303b4c",
}

SHAPES = f"""\
.bs{{font-family:{FONT}}}
.bs text{{font-size:12px;white-space:pre}}
.bs .name,.bs .h{{font-weight:bold}}
.bs .sub,.bs .amount{{font-size:11px}}
.bs .chip,.bs .state{{font-size:10.5px}}
.bs .h{{font-size:15px}}
.bs .f,.bs .n{{stroke-width:1}}
.bs .inferred{{stroke-dasharray:6 4}}
.bs .g{{stroke-width:1.4}}
.bs .w{{fill:none;stroke-width:1.3}}
.bs .hot>.n,.bs .bad>.n{{stroke-width:2.6}}
.bs .ring{{fill:none;stroke-width:2.2}}
.bs .w.hot{{stroke-width:2.4}}
.bs .bad>.n{{stroke-dasharray:5 3}}
.bs .t{{stroke-width:1}}
.bs .t.untrained{{stroke-width:1.4;stroke-dasharray:3 2}}
.bs .t.cut{{stroke-dasharray:4 2}}
.bs .overwritten+text{{text-decoration:line-through}}
.bs .t.hot{{stroke-width:2.4}}
"""
_COLOURS = """\
.bs .page{fill:$page}
.bs text{fill:$ink}
.bs .op,.bs .sub{fill:$soft}
.bs .f{fill:$frame;stroke:$edge}
.bs .f.odd{fill:$frame2}
.bs .bar{fill:$bar}
.bs .head{fill:$group}
.bs .n{fill:$heat0;stroke:$rim}
.bs .h1{fill:$heat1}
.bs .h2{fill:$heat2}
.bs .h3{fill:$heat3}
.bs .h4{fill:$heat4}
.bs .h3~text,.bs .h4~text{fill:$ink}
.bs .g{stroke:$group}
.bs .w{stroke:$line}
.bs .a{fill:$line}
.bs .ring{stroke:$shared}
.bs .bad>.n{stroke:$bad}
.bs .hot>.n,.bs .w.hot,.bs .t.hot{stroke:$hot}
.bs .a.hot{fill:$hot}
.bs .t.trained{fill:$trained;stroke:$page}
.bs .trained+text{fill:$trained_ink}
.bs .t.untrained{fill:$untrained_fill;stroke:$untrained}
.bs .untrained+text{fill:$untrained}
.bs .t.frozen{fill:$frozen_fill;stroke:$frozen}
.bs .frozen+text{fill:$frozen}
.bs .t.overwritten{fill:$overwritten_fill;stroke:$overwritten}
.bs .overwritten+text{fill:$overwritten}
.bs .t.unknown{fill:$unknown_fill;stroke:$page}
.bs .unknown+text{fill:$unknown}
.bs .t.given{fill:$page;stroke:$rim}
.bs .given+text{fill:$soft}
.bs .t.cut{fill:$page;stroke:$bad}
.bs .cut+text{fill:$bad}
.bs .t.root{fill:$ink;stroke:$ink}
.bs .root+text{fill:$page}
.bs .t.hooked{fill:$page;stroke:$rim}
.bs .t.hooked+text{fill:$soft}
.bs .t.bad,.bs .t.gone{fill:$page;stroke:$bad}
.bs .t.bad+text,.bs .t.gone+text{fill:$bad}
.bs .t.pin{fill:$bad;stroke:$page}
.bs .pin+text{fill:$page}
"""


def substituted(rules: str, colours: dict[str, str]) -> str:
    """Return style rules with the colours of a palette for their names."""
    return Template(rules).substitute(colours)


def css(theme: Theme = "auto") -> str:
    """Return the style sheet; by default it follows what the reader's system prefers."""
    if theme != "auto":
        return SHAPES + substituted(_COLOURS, LIGHT if theme == "light" else DARK)
    dark = substituted(_COLOURS, DARK)
    return f"{SHAPES}{substituted(_COLOURS, LIGHT)}@media screen and (prefers-color-scheme:dark){{\n{dark}}}\n"
