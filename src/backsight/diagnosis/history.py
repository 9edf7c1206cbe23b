"""What an audit remembers of the last one at the same call site: numbers only, no tensors."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch

from backsight.tape import Graph
from backsight.tracing.steps import Consumed, parameters, version

Site = tuple[str, int]
"""File and line of a call."""

_LIMIT = 64


@dataclass(frozen=True)
class Past:
    """One audit as the next one at its call site needs it.

    `nodes` are the identities of the graph's operations; `sizes` how many operations this and earlier graphs had, and
    `carried` how many of them each shared with the one before. `gradients` and `versions` are by parameter.
    """

    nodes: frozenset[tuple[int, int]]
    sizes: tuple[int, ...]
    carried: tuple[int, ...]
    gradients: dict[int, Consumed]
    versions: dict[int, tuple[weakref.ref[torch.Tensor], int]]


_past: dict[Site, Past] = {}


def recall(site: Site) -> Past | None:
    """Return the last audit at `site`."""
    return _past.get(site)


def remember(site: Site, graph: Graph, optimizers: list[torch.optim.Optimizer]) -> None:
    """Keep what the next audit at `site` will compare with; the oldest site goes when there are too many."""
    before = _past.pop(site, None)
    if len(_past) >= _LIMIT:
        del _past[next(iter(_past))]
    nodes = frozenset(operations(graph))
    tensors = [p for optimizer in optimizers for p in parameters(optimizer)]
    _past[site] = Past(
        nodes,
        (*(before.sizes if before else ()), len(nodes))[-3:],
        (*(before.carried if before else ()), len(nodes & before.nodes) if before else 0)[-3:],
        {id(p): Consumed(weakref.ref(p.grad), version(p.grad)) for p in tensors if p.grad is not None},
        {id(p): (weakref.ref(p), version(p)) for p in tensors},
    )


def operations(graph: Graph) -> list[tuple[int, int]]:
    """Return what identifies each operation of `graph` while it lives."""
    return [
        key
        for key, kind in zip(graph.identities, graph.columns.type.tolist(), strict=True)
        if graph.types[kind].kind != "leaf"
    ]
