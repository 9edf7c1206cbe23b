"""Tensors that need no gradient, beside the operations that take them: frozen parameters, what a watch saw detached,
and inputs if asked for.

Autograd has no node for such a tensor. What an operation keeps of it for its backward is all that a graph tells, so one
that is not kept, as the bias of a layer, is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from backsight.drawing.look import Look
from backsight.drawing.places import row_by_node
from backsight.drawing.scene import Chip
from backsight.tape import Cut, Graph, Saved
from backsight.tape.cells import harmless
from backsight.tape.rows import Rows, dimensions

_MADE = ("result", "save", "out", "reserve", "saved_tensors", "ctx")
"""How fields begin that hold what the operation made itself."""

_BY = {
    "no_grad": "computed with gradients disabled",
    "inference": "computed in inference mode",
    "item": "read as a number",
    "numpy": "converted to NumPy",
    "rewrapped": "copied into a new tensor",
}
"""What was done to an operand, if it was not `detach()` or `.data`."""

Given = Mapping[int, tuple[Chip, ...]]
"""The pills of each row that has any."""


def given(graph: Graph, rows: Rows, look: Look) -> Given:
    """Return the pills of what the rows were given that needs no gradient."""
    known = (leaf.storage for leaf in graph.leaves)
    leaves = {storage for storage in known if storage is not None}
    found: dict[int, tuple[Chip, ...]] = {}
    for row, node in enumerate(rows.node):
        if node in graph.saved:
            chips = tuple(_chips(graph, graph.saved[node], rows.module[row], leaves, inputs=look.inputs))
            if chips:
                found[row] = chips
    places = row_by_node(graph, rows) if graph.cuts else {}
    for node, cuts in graph.cuts.items():
        row = places[node]
        found[row] = tuple(dict.fromkeys((*found.get(row, ()), *map(_cut, cuts))))
    return found


def _cut(cut: Cut) -> Chip:
    """Return the pill of what a watch saw cut off from the graph: behind it no gradient goes on."""
    by, operand, source = cut
    words = _BY.get(by, "detached")
    where = f" at {source}" if source else ""
    return Chip(harmless(f"✂ {operand or words}"), "cut", (harmless(f"{operand} {words}".strip() + where),))


def _chips(graph: Graph, saved: tuple[Saved, ...], module: str, leaves: set[int], *, inputs: bool) -> Iterator[Chip]:
    met: set[int] = set()
    for each in saved:
        storage = each.storage
        if each.requires_grad or each.state != "alive" or storage is None or storage in leaves or storage in met:
            continue
        met.add(storage)
        name, is_parameter = graph.given.get(storage, ("", False))
        if is_parameter:
            yield Chip(harmless(name.removeprefix(f"{module}.")), "frozen", (harmless(name),))
        elif inputs and not each.name.startswith(_MADE):
            text = name.removeprefix(f"{module}.") or f"{each.name} {dimensions(each.shape or ())}"
            yield Chip(harmless(text), "given", (harmless(name or text),))
