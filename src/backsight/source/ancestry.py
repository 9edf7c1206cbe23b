"""What an expression may be computed from, by the text of its function alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from backsight.source.bindings import Spot, names_read, prefixes
from backsight.source.body import Body, Place, dotted
from backsight.source.definitions import Definition, flow_of, reaching


@dataclass(frozen=True)
class Ancestor:
    """A name that takes part in a value: where it is read, and where it is bound in the same function.

    entering: whether its value may come from before the function began: an argument, a global, `self.hidden`.
    """

    name: str
    read: Place
    bound: tuple[Place, ...]
    entering: bool


def ancestors(body: Body | None, expression: str, line: int) -> dict[str, Ancestor]:
    """Return every name that `expression`, as it stands at `line`, may be computed from, the nearest first.

    >>> list(ancestors(body, "loss", 41))       # logits, hidden = model(x, hidden); loss = f(logits, y)
    ['loss', 'f', 'logits', 'y', 'model', 'x', 'hidden']
    """
    if body is None:
        return {}
    flow = flow_of(body.node)
    start, root = flow.read_at(body, expression, line)
    if start is None:
        return {}
    names = _read(root) if root is not None else [expression]
    places = _Places(body)
    found: dict[str, _Found] = {}
    queue = [(name, start) for name in names]
    seen: set[tuple[str, int]] = set()
    followed: set[Definition] = set()
    for name, spot in queue:  # grows as we go
        if (name, spot.order) in seen:
            continue
        seen.add((name, spot.order))
        definitions, complete = reaching(flow, name, spot)
        # A name may be read again further back: `hidden = rnn(x, hidden)`.
        each = found.setdefault(name, _Found(spot))
        each.bound |= dict.fromkeys(definition.spot for definition in definitions)
        each.entering |= not complete
        for definition in definitions:
            if definition not in followed:
                followed.add(definition)
                queue += [(read, definition.spot) for value in definition.values for read in _read(value)]
    return {
        name: Ancestor(name, places.of(each.read), tuple(places.of(spot) for spot in each.bound), each.entering)
        for name, each in found.items()
    }


@dataclass
class _Found:
    """An ancestor while it is being put together."""

    read: Spot
    bound: dict[Spot, None] = field(default_factory=dict)
    entering: bool = False


class _Places:
    """The places of statements, each written out once."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._known: dict[Spot, Place] = {}

    def of(self, spot: Spot) -> Place:
        if spot not in self._known:
            self._known[spot] = self._body.place(spot.node)
        return self._known[spot]


def _read(node: ast.expr) -> list[str]:
    """The names and chains of attributes that an expression reads, the longest form of each and its prefixes."""
    name = dotted(node)
    if name is not None:
        return list(reversed(prefixes(name)))
    return list(names_read(node))
