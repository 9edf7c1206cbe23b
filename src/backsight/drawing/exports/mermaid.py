"""Mermaid: the folded picture as text that GitHub draws, to be pasted into an issue."""

from __future__ import annotations

from backsight.drawing.card import title
from backsight.drawing.scene import Box, Scene

_CLASSES = ("#ffffff", "#fff6df", "#ffe3ad", "#ffc46b", "#ff9d3c")


def mermaid(scene: Scene) -> str:
    """Return what `scene` shows as a Mermaid flowchart.

    ```python
    print(mermaid(scene))       # paste between ```mermaid and ```
    ```

    GitHub draws up to 500 links and 50,000 characters; the folded picture stays far below.
    """
    lines = ["flowchart TB"]
    shown = set(scene.shown)
    around: list[int] = []
    for box in scene.boxes:
        if scene.stands_for[box.index] != box.index:
            continue
        while around and around[-1] != box.parent:
            around.pop()
            lines.append("  " * (len(around) + 1) + "end")
        margin = "  " * (len(around) + 1)
        if box.index in shown:
            lines.append(f'{margin}b{box.index}["{_label(box)}"]:::h{box.heat}')
        else:
            lines.append(f'{margin}subgraph b{box.index}["{_safe(title(box))}"]')
            around.append(box.index)
    lines += ["  " * k + "end" for k in range(len(around), 0, -1)]
    lines += [f"  b{a} --> b{b}" for a, b in scene.shown_links]
    met = {scene.boxes[i].heat for i in shown}
    lines += [
        f"  classDef h{k} fill:{fill},stroke:#7a879b,color:#17202e" for k, fill in enumerate(_CLASSES) if k in met
    ]
    return "\n".join(lines) + "\n"


def _label(box: Box) -> str:
    if box.is_group:
        parts = [f"<b>{_safe(title(box))}</b>", f"{box.count} operations", box.amount]
    else:
        name = f"<b>{_safe(box.name)}</b> " if box.name else ""
        parts = [name + _safe(box.op), _safe(f"{box.shape} {box.amount}".strip())]
        parts += [_safe(", ".join(chip.text for chip in box.chips)), _safe(box.root)]
    return "<br/>".join(part for part in parts if part)


def _safe(text: str) -> str:
    """Return `text` with what Mermaid or HTML would read as more than text written as character codes."""
    return "".join(c if c.isalnum() or c in " ._-×…,:" else f"#{ord(c)};" for c in text)
