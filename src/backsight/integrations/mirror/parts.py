"""The parts of a model that have charts of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

PARTS = 24
"""The most there are: the blocks of most transformers, and what is around them."""

FEW = 6
"""As long as there are fewer, modules are opened that are more than a list of others."""

_LISTS = frozenset(("ModuleList", "ModuleDict", "Sequential"))

Node = dict[str, Any]


class _Part(NamedTuple):
    """A module with all that is inside, or with the parameters that are right its own."""

    node: Node
    is_whole: bool = True


def parts_of(tree: Sequence[Node]) -> dict[str, str]:
    """Return the part of each module that is in one, both by name, in the order of the model.

    tree: the modules as a run stores them. Lists of modules are opened, others while there are few parts. Of a list
    that is too long some are shown, at even distances. A model without inner modules is a part by its class.
    """
    parts = [_Part(node) for node in tree]
    while True:
        opened = _open_lists(parts)
        if opened == parts and len(parts) < FEW:
            deeper = [inner for part in parts for inner in _inner(part) or [part]]
            opened = deeper if len(deeper) <= PARTS else parts
        if opened == parts:
            break
        parts = opened
    return {
        each["name"]: part.node["name"] or part.node["type"]
        for part in parts
        for each in (_all(part.node) if part.is_whole else [part.node])
    }


def _open_lists(parts: list[_Part]) -> list[_Part]:
    """Return the parts with what is in them in place of lists, as far as there is room."""
    found: list[_Part] = []
    for k, part in enumerate(parts):
        room = PARTS - len(found) - len(parts[k + 1 :])
        inner = _inner(part) if part.node["type"] in _LISTS else []
        found += (inner if len(inner) <= room else _spread(inner, room)) if inner and room > 1 else [part]
    return found


def _inner(part: _Part) -> list[_Part]:
    """Return a part opened: its own parameters, if it has any, and the modules right inside that hold parameters."""
    if not part.is_whole:
        return []
    children = part.node.get("children", ())
    inner = [_Part(child) for child in children if any(each.get("parameters") for each in _all(child))]
    return [part._replace(is_whole=False), *inner] if inner and part.node.get("parameters") else inner


def _all(node: Node) -> Iterator[Node]:
    """Yield a module and all inside of it."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(each.get("children", ()))


def _spread(parts: Sequence[_Part], room: int) -> list[_Part]:
    """Return so many of them at even distances, the first and the last among them."""
    return [parts[round(k * (len(parts) - 1) / (room - 1))] for k in range(room)]
