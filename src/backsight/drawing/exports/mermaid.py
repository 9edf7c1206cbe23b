"""Mermaid: the folded picture as text that GitHub draws, to be pasted into an issue."""

from __future__ import annotations

from backsight.drawing.card import title
from backsight.drawing.exports.outline import FILLS, facts, outline
from backsight.drawing.scene import Box, Scene


def mermaid(scene: Scene) -> str:
    """Return what `scene` shows as a Mermaid flowchart.

    ```python
    print(mermaid(scene))       # paste between ```mermaid and ```
    ```

    GitHub draws up to 500 links and 50,000 characters; the folded picture stays far below.
    """
    lines = ["flowchart TB"]
    for depth, box in outline(scene):
        margin = "  " * (depth + 1)
        if box is None:
            lines.append(f"{margin}end")
        elif box.opened:
            lines.append(f'{margin}subgraph b{box.index}["{_safe(title(box))}"]')
        else:
            lines.append(f'{margin}b{box.index}["{_label(box)}"]:::h{box.heat}')
    lines += [f"  b{a} --> b{b}" for a, b in scene.shown_links]
    met = {scene.boxes[i].heat for i in scene.shown}
    lines += [f"  classDef h{k} fill:{fill},stroke:#7a879b,color:#17202e" for k, fill in enumerate(FILLS) if k in met]
    return "\n".join(lines) + "\n"


def _label(box: Box) -> str:
    name = f"<b>{_safe(title(box) if box.is_group else box.name)}</b>" if box.name else ""
    return "<br/>".join([f"{name} {_safe(box.cls or box.op)}".strip(), *map(_safe, facts(box))])


def _safe(text: str) -> str:
    """Return `text` with what Mermaid or HTML would read as more than text written as character codes."""
    return "".join(c if c.isalnum() or c in " ._-×…,:" else f"#{ord(c)};" for c in text)
