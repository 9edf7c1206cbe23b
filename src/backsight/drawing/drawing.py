"""`Drawing`: a picture of a graph in whatever format is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from backsight.drawing import exports
from backsight.drawing.detail import told
from backsight.drawing.look import Look
from backsight.drawing.page import page
from backsight.drawing.scene import Box, Scene
from backsight.drawing.staging import staged
from backsight.drawing.svg import svg
from backsight.tape import Graph
from backsight.text.palette import Theme


@dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A picture of a graph; in a notebook it shows itself.

    ```python
    drawing = backsight.graph(loss).draw(path=("delta", "loss"))
    drawing.save("loss.svg")                # or .html .png .dot .mmd .json .graphml .explorer.json
    print(drawing.mermaid())                # to paste into an issue
    ```
    """

    graph: Graph
    look: Look = field(default_factory=Look)

    @cached_property
    def scene(self) -> Scene:
        """The folded picture as plain data."""
        return staged(self.graph, self.look)

    def tell(self, box: Box) -> str:
        """Return all that is known of a box of the scene."""
        return told(self.graph, box)

    def svg(self, theme: Theme = "auto") -> str:
        """Return the picture as SVG; light or dark as the reader's system prefers, or as `theme` says."""
        return svg(self.scene, self.tell, theme=theme, direction=self.look.direction)

    def html(self) -> str:
        """Return one page that needs nothing else: pan, zoom, open and close modules, search, trace gradients."""
        return page(self.scene, self.tell)

    def png(self) -> bytes:
        """Return the picture as pixels.

        Raises:
            NoRasterizer: if nothing is installed that can make them.
        """
        return exports.png(self.svg("light"))

    def dot(self) -> str:
        """Return what the picture shows in Graphviz's language."""
        return exports.dot(self.scene)

    def mermaid(self) -> str:
        """Return what the picture shows as Mermaid, which GitHub draws in issues."""
        return exports.mermaid(self.scene)

    def json(self) -> str:
        """Return the folded picture as JSON."""
        return exports.json_text(self.scene)

    def graphml(self) -> str:
        """Return the whole graph as GraphML."""
        return exports.graphml(self.graph)

    def model_explorer(self) -> str:
        """Return the whole graph as Google's Model Explorer opens it."""
        return exports.model_explorer(self.graph)

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Write the picture to `file`, in the format that its suffix names, and return the path.

        Raises:
            ValueError: if the suffix names no format.
            NoRasterizer: for `.png`, if nothing is installed that can make one.
            OSError: if the file cannot be written.
        """
        path = Path(file)
        for suffix, written in _WRITERS.items():
            if path.name.lower().endswith(suffix) and path.name.lower() != suffix:
                content = written(self)
                data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
                path.write_bytes(data)
                return path
        known = ", ".join(_WRITERS)
        raise ValueError(f"{path.name!r} does not say which format to write: the name must end in one of {known}.")

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto">{self.svg()}</div>'  # one that is too wide for a cell is scrolled, not cut

    def __repr__(self) -> str:
        count = sum(1 for _ in self.scene.shown)
        return f"<Drawing of {self.scene.title}: {count} box{'es' * (count != 1)}>"


_WRITERS: dict[str, Callable[[Drawing], str | bytes]] = {
    ".svg": Drawing.svg,
    ".html": Drawing.html,
    ".png": Drawing.png,
    ".dot": Drawing.dot,
    ".mmd": Drawing.mermaid,
    ".explorer.json": Drawing.model_explorer,
    ".json": Drawing.json,
    ".graphml": Drawing.graphml,
}


def draw(graph: Graph, file: str | os.PathLike[str] | None = None, **look: Any) -> Drawing:
    """Return the picture of `graph`, and write it to `file` if one is given.

    ```python
    draw(backsight.graph(loss), "loss.svg", max_boxes=60)
    ```

    Args:
        graph: what `backsight.graph` returned.
        file: where to write; the suffix says which format.
        look: what the picture shows: the fields of `backsight.drawing.Look`.

    Raises:
        TypeError: if `look` names something that a picture does not have.
        ValueError: if the suffix names no format.
    """
    drawing = Drawing(graph, Look(**look))
    if file is not None:
        drawing.save(file)
    return drawing
