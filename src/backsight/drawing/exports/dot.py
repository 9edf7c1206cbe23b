"""Graphviz's language: modules as clusters, operations as boxes, as much open as the picture shows."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.drawing.card import title
from backsight.drawing.exports.outline import FILLS, facts, outline
from backsight.drawing.scene import Box, Scene


def dot(scene: Scene) -> str:
    """Return `scene` in Graphviz's language, for `dot -Tpdf` and other tools; nothing here needs Graphviz.

    ```python
    dot(scene)      # 'digraph {\\n  label="loss ...'
    ```
    """
    lines = [
        "digraph {",
        f"  label={_quoted(f'{scene.title} - {scene.summary}')}; labelloc=t; fontname=Helvetica;",
        '  node [shape=box, style="rounded,filled", fontname=Helvetica, fontsize=11];',
        *_boxes(scene),
        *(f"  b{a} -> b{b};" for a, b in scene.shown_links),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _boxes(scene: Scene) -> Iterator[str]:
    for depth, box in outline(scene):
        margin = "  " * (depth + 1)
        if box is None:
            yield f"{margin}}}"
        elif box.opened:
            yield f"{margin}subgraph cluster_{box.index} {{ label={_quoted(title(box))};"
        else:
            yield f"{margin}b{box.index} [label={_quoted(_label(box))}, fillcolor={_quoted(FILLS[box.heat])}];"


def _label(box: Box) -> str:
    name = title(box) if box.is_group else f"{box.name}: {box.cls or box.op}" if box.name else box.op
    return "\n".join([name, *facts(box)])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
