"""Graphviz's language: modules as clusters, operations as boxes, as much open as the picture shows."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.drawing.card import title
from backsight.drawing.scene import Box, Scene

_FILLS = ("#ffffff", "#fff6df", "#ffe3ad", "#ffc46b", "#ff9d3c")


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
    shown = set(scene.shown)
    around: list[int] = []
    for box in scene.boxes:
        if scene.stands_for[box.index] != box.index:
            continue
        while around and around[-1] != box.parent:
            yield "  " * len(around) + "}"
            around.pop()
        margin = "  " * (len(around) + 1)
        if box.index in shown:
            yield f"{margin}b{box.index} [label={_quoted(_label(box))}, fillcolor={_quoted(_FILLS[box.heat])}];"
        else:
            yield f"{margin}subgraph cluster_{box.index} {{ label={_quoted(title(box))};"
            around.append(box.index)
    yield from ("  " * k + "}" for k in range(len(around), 0, -1))


def _label(box: Box) -> str:
    if box.is_group:
        return f"{title(box)}\n{box.count} operations {box.amount}"
    name = f"{box.name}: {box.op}" if box.name else box.op
    leaves = ", ".join(chip.text for chip in box.chips)
    return "\n".join(line for line in (name, f"{box.shape} {box.amount}".strip(), leaves, box.root) if line)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
