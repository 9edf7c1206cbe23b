"""The parts of a model that have charts of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

PARTS = 24
"""The most there are: the blocks of most transformers, and what is around them."""

FEW = 8
"""If the next deeper modules are too many, some of them are taken, at even distances, in place of so few parts."""

Node = dict[str, Any]


def parts_of(tree: Sequence[Node]) -> dict[str, str]:
    """Return the part of each module that is in one, both by name, in the order of the model.

    tree: the modules as a run stores them. Parts are the modules with parameters as deep as there are no more than
    `PARTS` of them; a model without inner modules is a part by its class.
    """
    level = list(tree)
    while True:
        deeper = [inner for node in level for inner in (_inner(node) or [node])]
        if len(deeper) > PARTS:
            level = _spread(deeper) if len(level) < FEW else level
            break
        if len(deeper) == len(level) and all(one is other for one, other in zip(deeper, level, strict=True)):
            break
        level = deeper
    return {each["name"]: node["name"] or node["type"] for node in level for each in _all(node)}


def _inner(node: Node) -> list[Node]:
    """Return the modules right inside that hold parameters, each where it stands first."""
    return [child for child in node.get("children", ()) if any(each.get("parameters") for each in _all(child))]


def _all(node: Node) -> Iterator[Node]:
    """Yield a module and all inside of it."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(each.get("children", ()))


def _spread(nodes: Sequence[Node]) -> list[Node]:
    """Return `PARTS` of them at even distances, the first and the last among them."""
    return [nodes[round(k * (len(nodes) - 1) / (PARTS - 1))] for k in range(PARTS)]
