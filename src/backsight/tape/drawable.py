"""`Drawable`: what a graph can do about being drawn. The one place of the ground floor that looks upstairs.

A method must stand on the class to be found, typed and documented, while pictures belong to the room above. So this
file alone imports `backsight.drawing`, when a picture is asked for and not before; the import contract names it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from backsight.drawing import Drawing
    from backsight.tape.graph import Graph


class Drawable:
    """The pictures of a graph."""

    __slots__ = ()

    def draw(self, file: str | os.PathLike[str] | None = None, **look: Any) -> Drawing:
        """Return a picture of the graph, and write it to `file`: .svg .html .png .dot .mmd .json .graphml.

        ```python
        g = backsight.graph(loss)
        g.draw()                                        # shows itself in a notebook
        g.draw("loss.html")                             # a page to explore it in
        g.draw("delta.svg", path=("delta", "loss"))     # how delta reaches the loss
        g.draw("shared.svg", shared=backsight.graph(other_loss))
        ```

        Args:
            file: where to write; the suffix says which format.
            look: what to show, as in `backsight.drawing.Look`: `path`, `shared`, `pins`, `heat`, `views`, `fold`,
                `max_boxes`, `depth`, `open`, `title`.

        Raises:
            TypeError: if `look` names something that a picture does not have.
            ValueError: if the suffix names no format, or a value of `look` makes no sense.
            NotInGraph: if a place that `look` names is not in the graph.
            NoRasterizer: for `.png`, if nothing is installed that can make one.
            OSError: if the file cannot be written.
        """
        from backsight.drawing import draw

        return draw(cast("Graph", self), file, **look)

    def to_svg(self, **look: Any) -> str:
        """Return the picture as SVG. What it shows is said as in `draw`."""
        return self.draw(**look).svg()

    def to_html(self, **look: Any) -> str:
        """Return the picture as one interactive page. What it shows is said as in `draw`."""
        return self.draw(**look).html()

    def to_dot(self, **look: Any) -> str:
        """Return the picture in Graphviz's language. What it shows is said as in `draw`."""
        return self.draw(**look).dot()

    def to_json(self, **look: Any) -> str:
        """Return the folded picture as JSON. What it shows is said as in `draw`."""
        return self.draw(**look).json()

    def to_networkx(self) -> Any:
        """Return every node and edge as a `networkx.MultiDiGraph`, from producer to consumer.

        Raises:
            ImportError: if networkx is not installed.
        """
        from backsight.drawing import networkx_graph

        return networkx_graph(cast("Graph", self))

    def _repr_html_(self) -> str:
        return self.draw()._repr_html_()
