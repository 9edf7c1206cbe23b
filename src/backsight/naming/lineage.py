"""From holders to names: of all chains from a root to an object, the one a person would say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from . import _torch, plain, render
from .edges import Edge, attribute, edges
from .name import Name
from .walk import Walk

CLAIMED = {"parameter": 4.0, "buffer": 4.0, "module": 2.0}  # what another name pays for an object with a module path
ODD_VARIABLE, SELF, ODD_NAME = 1.0, 0.25, 5.0


class Link(NamedTuple):
    """The holder (an index into the walk) and how it holds."""

    holder: int
    edge: Edge


class Lineage:
    """The cheapest chain from a root to each object asked for, and its name."""

    def __init__(self, walk: Walk, wanted: Iterable[int]) -> None:
        self._walk = walk
        self._namespaces: set[int] = set()
        self._links: dict[int, list[Link]] = defaultdict(list)  # by index of the child
        self._trace(wanted)
        self._price()
        self._cost, self._best = self._cheapest()

    def names(self, index: int, limit: int) -> tuple[Name, ...]:
        """Up to `limit` names of one object, the best first, no two alike; a hidden one only for want of better."""
        links = [link for link in self._links[index] if link.holder in self._cost]
        found: dict[str, Name] = {}
        for link in sorted(links, key=lambda link: self._cost[link.holder] + link.edge.cost):
            name = self._name(link)
            if name is not None and not (found and name.kind == "hidden"):
                found.setdefault(name.text, name)
            if len(found) == limit:
                break
        return tuple(found.values())

    def _trace(self, wanted: Iterable[int]) -> None:
        """Follow the holders of the wanted objects up to the roots, and look up the edges on the way."""
        objects, index = self._walk.objects, self._walk.index
        pending = dict.fromkeys(wanted)
        asked: set[int] = set()
        while pending:
            children: dict[int, set[int]] = defaultdict(set)
            for child in pending:
                for holder in self._holders(child):
                    children[holder].add(id(objects[child]))
            asked.update(pending)
            pending = dict.fromkeys(holder for holder in children if holder not in asked)
            for holder, keys in children.items():
                for edge in edges(objects[holder], keys):
                    self._links[index[edge.child]].append(Link(holder, edge))
                    if edge.kind == "namespace":
                        self._namespaces.add(index[edge.child])
                    named = index.get(id(edge.key)) if _has_name(edge.key) else None
                    if named is not None and named not in asked:
                        pending[named] = None

    def _holders(self, child: int) -> list[int]:
        known = self._walk.holders.get(id(self._walk.objects[child]))
        if known is not None:
            return known
        first = self._walk.holder[child]
        return [] if first < 0 else [first]

    def _price(self) -> None:
        """Finish the edges whose meaning depends on more than one object."""
        for links in self._links.values():
            claims = [link.edge.kind for link in links if link.edge.kind in CLAIMED and link.edge.cost < 1]
            links[:] = [self._finished(link, CLAIMED[claims[0]] if claims else 0.0) for link in links]

    def _finished(self, link: Link, claimed: float) -> Link:
        holder, edge = link
        extra = 0.0 if edge.kind in CLAIMED else claimed
        if holder in self._walk.roots and edge.kind == "item":
            scope = self._walk.roots[holder].scope
            edge = Edge(edge.child, "variable", edge.key, 1.0 + _oddity(edge.key), scope)
        elif holder in self._namespaces and edge.kind == "item":
            edge = attribute(edge.child, edge.key)
        return Link(holder, edge._replace(cost=edge.cost + extra))

    def _cheapest(self) -> tuple[dict[int, float], dict[int, Link]]:
        """Dijkstra's algorithm from all roots; the earlier root wins a tie."""
        below: dict[int, list[tuple[int, Link]]] = defaultdict(list)
        for child, links in self._links.items():
            for link in links:
                below[link.holder].append((child, link))
        queue = [(root.cost, at) for at, root in self._walk.roots.items() if at in below]
        queue.sort()
        cost = {at: price for price, at in queue}
        best: dict[int, Link] = {}
        while queue:
            price, at = heappop(queue)
            if price > cost[at]:
                continue
            for child, link in below[at]:
                total = price + link.edge.cost
                if total < cost.get(child, float("inf")):
                    cost[child], best[child] = total, link
                    heappush(queue, (total, child))
        return cost, best

    def _name(self, link: Link, nested: bool = False) -> Name | None:
        chain: list[render.Step] = []
        start: Link | None = link
        while start is not None:
            chain.append((self._walk.objects[start.holder], start.edge))
            last, start = start, self._best.get(start.holder)
        root = self._walk.roots.get(last.holder)
        if root is None:
            return None
        chain.reverse()
        return render.name_of(chain, root.scope, lambda key: None if nested else self._key_name(key))

    def _key_name(self, key: object) -> str | None:
        """`model.0.weight` for the key of `opt.state[model.0.weight]`; a key within a key is not spelt out."""
        at = self._walk.index.get(id(key)) if _has_name(key) else None
        link = None if at is None else self._best.get(at)
        name = None if link is None or link.edge.kind == "hidden" else self._name(link, nested=True)
        return None if name is None else name.path


def _has_name(key: object) -> bool:
    return plain.inherits(type(key), (_torch.Tensor, _torch.Module))


def _oddity(name: object) -> float:
    if type(name) is not str or not name.isidentifier():
        return ODD_NAME
    if name.startswith("_"):
        return ODD_VARIABLE
    return SELF if name in ("self", "cls") else 0.0
