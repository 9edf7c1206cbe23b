"""What is marked in a picture: the state of leaves, a highlighted path, what two graphs share, pinned remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backsight.drawing.look import Look
from backsight.drawing.places import row_by_node
from backsight.drawing.scene import Remark, Status
from backsight.tape import Graph, Leaf, Node
from backsight.tape.cells import harmless
from backsight.tape.queries import Place, locate
from backsight.tape.rows import Rows


@dataclass(frozen=True)
class Marks:
    """What is marked: rows and leaves (positions in `graph.leaves`) on the path, rows shared, remarks by row."""

    statuses: tuple[Status, ...]
    hot: frozenset[int]
    hot_leaves: frozenset[int]
    shared: frozenset[int]
    pins: dict[int, tuple[int, ...]]
    remarks: tuple[Remark, ...]


def marked(graph: Graph, rows: Rows, look: Look) -> Marks:
    """Return what `look` asks to mark among `rows`.

    Raises:
        NotInGraph: if a place that it names is not in the graph.
    """
    row_of = {node: row for row, node in enumerate(rows.node)}
    places = row_by_node(graph, rows) if look.pins else {}
    hot = _on_path(graph, look.path)
    shared = {node.index for node in graph.shared(look.shared)} if look.shared is not None else set()
    pins: dict[int, tuple[int, ...]] = {}
    remarks = []
    for number, pin in enumerate(look.pins, 1):
        remarks.append(Remark(number, harmless(pin.text)))
        for row in dict.fromkeys(places[locate(graph, place)] for place in pin.places):
            pins[row] = (*pins.get(row, ()), number)
    known = any(leaf.owner is not None for leaf in graph.leaves)
    return Marks(
        statuses=tuple(status(leaf, optimizer_known=known) for leaf in graph.leaves),
        hot=frozenset(row_of[i] for i in hot if i in row_of),
        hot_leaves=frozenset(graph.leaf_at[i] for i in hot if i in graph.leaf_at),
        shared=frozenset(row_of[i] for i in shared if i in row_of),
        pins=pins,
        remarks=tuple(remarks),
    )


def status(leaf: Leaf, *, optimizer_known: bool) -> Status:
    """Return what becomes of a leaf after backward, as far as that is known."""
    if leaf.kind == "overwritten":
        return "overwritten"
    if leaf.owner is not None:
        return "trained"
    tensor = leaf.tensor()
    if tensor is not None and not tensor.requires_grad:
        return "frozen"
    return "untrained" if optimizer_known else "unknown"


def _on_path(graph: Graph, path: tuple[Place, Place] | Sequence[Node] | None) -> set[int]:
    if path is None:
        return set()
    places = list(path)
    if len(places) == 2:
        return {node.index for node in graph.between(places[0], places[1])}
    if all(isinstance(place, Node) for place in places):
        return {locate(graph, place) for place in places}
    raise ValueError(
        'path is two places, such as ("delta", "loss"), or the nodes that graph.path or .between returned.'
    )
