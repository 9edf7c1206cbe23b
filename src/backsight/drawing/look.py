"""What a picture is to show, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from backsight.tape import Graph, Node
from backsight.tape.queries import Place

READABLE = 20
"""How many boxes a picture has unless asked for more: what a person can take in at one look."""

MOST_BOXES = 500
"""How many boxes are laid out at once at most."""

Direction = Literal["auto", "down", "right"]
"""Where computation runs in a picture."""


@dataclass(frozen=True)
class Heat:
    """What a picture is coloured by instead of bytes: a value by node, such as the norm of the gradient there.

    ```python
    g.draw(heat=Heat("gradient norm", {node: norm, ...}))
    ```

    Keys are whatever names a node of the graph. Equal operations that are folded show the largest value among them.
    """

    name: str
    values: Mapping[Place, float]
    unit: str = ""


@dataclass(frozen=True)
class Pin:
    """A remark that is pinned to a place in the graph, or several: a number at the box, the text below the picture."""

    place: Place | Sequence[Place]
    text: str

    @property
    def places(self) -> Sequence[Place]:
        """All places to which it is pinned."""
        return [self.place] if isinstance(self.place, str) or not isinstance(self.place, Sequence) else self.place


@dataclass(frozen=True)
class Look:
    """What a picture of a graph shows.

    ```python
    Look(path=("delta", "loss"))                    # every way from delta to the loss, highlighted
    Look(max_boxes=100, views=True)                 # more of it
    Look(shared=backsight.graph(other_loss))        # what both losses go back through
    ```

    Args:
        title: stands above the picture; made from the names of the roots if empty.
        path: two places, of which every way between them is highlighted, or nodes, which are highlighted themselves.
        shared: another graph; the operations that are in both are highlighted.
        pins: remarks on places, such as the findings of an audit.
        heat: what boxes are coloured by: `"saved"` bytes, a `Heat`, or None for nothing.
        views: show views and other bookkeeping operations.
        inputs: show what needs no gradient, such as the input of a model, as far as an operation keeps it.
        fold: show equal repetitions once.
        max_boxes: open modules only as long as no more boxes than this are shown.
        depth: open modules to this depth whatever `max_boxes` says; -1 for all.
        open: paths of modules to open whatever `max_boxes` says.
        direction: where computation runs in an SVG or PNG: "down", "right", or "auto" for down unless the picture would
            be wider than a page and fits it much better from left to right.
        note: what else is to be said of the graph, before its summary; such as that an audit found nothing.
    """

    title: str = ""
    path: tuple[Place, Place] | Sequence[Node] | None = None
    shared: Graph | None = None
    pins: Sequence[Pin] = ()
    heat: Literal["saved"] | Heat | None = "saved"
    views: bool = False
    inputs: bool = False
    fold: bool = True
    max_boxes: int = READABLE
    depth: int | None = None
    open: Sequence[str] = ()
    direction: Direction = "auto"
    note: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.max_boxes, bool) or not isinstance(self.max_boxes, int) or self.max_boxes < 1:
            raise ValueError(f"max_boxes is how many boxes a picture may have, at least 1, not {self.max_boxes!r}.")
        if self.heat not in ("saved", None) and not isinstance(self.heat, Heat):
            raise ValueError(f'heat is "saved", None or a backsight.drawing.Heat, not {self.heat!r}.')
        if self.direction not in ("auto", "down", "right"):
            raise ValueError(f'direction is "auto", "down" or "right", not {self.direction!r}.')
        if isinstance(self.open, str):
            raise TypeError(f"open takes a list of module paths: open=[{self.open!r}].")
