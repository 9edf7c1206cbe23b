"""Where in a picture each node of the graph is to be found, and how an attribute spells many of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from backsight.drawing.scene import Scene
from backsight.tape import Graph
from backsight.tape.rows import Rows


def row_by_node(graph: Graph, rows: Rows) -> dict[int, int]:
    """Return the row of each node; of a hidden view that of what consumes it, of a leaf the first that consumes it."""
    row = {node: k for k, node in enumerate(rows.node)}
    for k in range(len(rows) - 1, -1, -1):
        for leaf in rows.leaves[k]:
            row[graph.leaves[leaf].node] = k
    columns = graph.columns
    producers, edges = np.unique(columns.inputs, return_index=True)
    consumers = np.searchsorted(columns.start, edges, side="right") - 1
    for node, consumer in zip(producers.tolist(), consumers.tolist(), strict=True):  # consumers have smaller indices
        if node >= 0 and node not in row:
            row[node] = row[consumer]
    return row


def root_names(rows: Rows, stands_for: NDArray[np.int64]) -> dict[int, tuple[str, ...]]:
    """Return the names of the roots by the row that is shown for them."""
    names: dict[int, tuple[str, ...]] = {}
    for row, several in rows.roots.items():
        shown = int(stands_for[row])
        names[shown] = (*names.get(shown, ()), *several)
    return names


def leaf_nodes(graph: Graph, rows: Rows, stands_for: NDArray[np.int64]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the nodes of the leaves that a row consumes in all its copies, by row and place among its leaves."""
    nodes: dict[tuple[int, int], dict[int, None]] = {}
    for first, leaves in zip(stands_for.tolist(), rows.leaves, strict=True):
        for k, leaf in enumerate(leaves):
            nodes.setdefault((first, k), {})[graph.leaves[leaf].node] = None
    return {place: tuple(several) for place, several in nodes.items()}


def nodes_by_box(scene: Scene) -> dict[int, list[int]]:
    """Return the nodes that each box stands for, by index: those of all its copies and of everything within it.

    A leaf is with the closed group that consumes it; beside an operation it has a pill of its own.
    """
    found: dict[int, list[int]] = {i: [] for i in scene.shown}
    for node, index in scene.at.items():
        found[scene.stands_for[index]].append(node)
    for box in scene.boxes:
        if scene.stands_for[box.index] != box.index:
            found[scene.stands_for[box.index]] += (node for chip in box.chips for node in chip.nodes)
    return found


def spelled(nodes: Iterable[int]) -> str:
    """Return numbers in order, those in equal steps as a range.

    ```python
    spelled([1, 4, 5, 6, 7, 20, 22, 24])        # "1 4-7 20-24/2"
    ```
    """
    return " ".join(_runs(sorted(set(nodes))))


def _runs(numbers: list[int]) -> Iterator[str]:
    k = 0
    while k < len(numbers):
        end = k + 1
        step = numbers[end] - numbers[k] if end < len(numbers) else 0
        while end + 1 < len(numbers) and numbers[end + 1] - numbers[end] == step:
            end += 1
        if end - k < 2:
            yield str(numbers[k])
            k += 1
        else:
            yield f"{numbers[k]}-{numbers[end]}" + (f"/{step}" if step > 1 else "")
            k = end + 1
