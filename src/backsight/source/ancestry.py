"""What an expression may be computed from, by the text of its function alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from backsight.source.bindings import prefixes, spots, uses
from backsight.source.body import Body, Place, dotted, expressions, statement_at
from backsight.source.definitions import reaching


@dataclass(frozen=True)
class Ancestor:
    """A name that takes part in a value: where it is read, and where it is bound in the same function.

    entering: whether its value may come from before the function began: an argument, a global, `self.hidden`.
    """

    name: str
    read: Place
    bound: tuple[Place, ...]
    entering: bool


def ancestors(body: Body, expression: str, line: int) -> dict[str, Ancestor]:
    """Return every name that `expression`, as it stands at `line`, may be computed from, the nearest first.

    >>> list(ancestors(body, "loss", 41))       # logits, hidden = model(x, hidden); loss = f(logits, y)
    ['loss', 'f', 'logits', 'y', 'model', 'x', 'hidden']
    """
    every = spots(body.node)
    statement = statement_at(body, line)
    start = next((spot for spot in every if spot.node is statement), None)
    if start is None:
        return {}
    root = next((node for node in expressions(start.node) if body.text(node) == expression), None)
    names = _read(root) if root is not None else [expression]
    found: dict[str, Ancestor] = {}
    queue = [(name, start) for name in names]
    seen: set[tuple[str, int]] = set()
    for name, spot in queue:  # grows as we go
        if (name, spot.order) in seen:
            continue
        seen.add((name, spot.order))
        definitions, complete = reaching(every, name, spot)
        places = tuple(body.place(each.spot.node) for each in definitions)
        nearest = found.get(name)
        if nearest is None:
            found[name] = Ancestor(name, body.place(spot.node), tuple(dict.fromkeys(places)), not complete)
        else:  # read again further back: `hidden = rnn(x, hidden)`
            bound = tuple(dict.fromkeys((*nearest.bound, *places)))
            found[name] = replace(nearest, bound=bound, entering=nearest.entering or not complete)
        for each in definitions:
            queue += [(read, each.spot) for value in each.values for read in _read(value)]
    return found


def _read(node: ast.expr) -> list[str]:
    """The names and chains of attributes that an expression reads, the longest form of each and its prefixes."""
    name = dotted(node)
    if name is not None:
        return list(reversed(prefixes(name)))
    return list(dict.fromkeys(use.name for use in uses(node) if not use.binds))
