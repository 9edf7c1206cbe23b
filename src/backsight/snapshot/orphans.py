"""Tensors that no variable holds: what keeps them alive instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from backsight.naming import Name, Search, search
from backsight.snapshot.overwritten import Approximation, approximations, by_node, live_results
from backsight.tape import Graph, capture, no_torch_function
from backsight.tape.saved import memory


@dataclass(frozen=True)
class Keepers:
    """What the graphs behind all named results keep, by the id of a tensor, and who has which memory."""

    leaves: dict[int, Approximation] = field(default_factory=dict)
    saved: dict[int, str] = field(default_factory=dict)
    saved_memory: dict[int, str] = field(default_factory=dict)
    named_memory: dict[int, str] = field(default_factory=dict)


def described(orphans: Sequence[torch.Tensor], *, deep: bool, complete: bool) -> tuple[Name, ...]:
    """Return a name that is not exact for each of `orphans`, which a search has not found.

    `complete` says whether that search has seen everything.
    """
    if not orphans:
        return ()
    found = search((), deep=deep, collect=(torch.Tensor,))
    with no_torch_function():
        keepers = _keepers(found)
        return tuple(_described(tensor, keepers, complete and found.complete) for tensor in orphans)


def _described(tensor: torch.Tensor, keepers: Keepers, complete: bool) -> Name:
    leaf = keepers.leaves.get(id(tensor))
    if leaf is not None:
        return _overwritten(leaf)
    storage = memory(tensor)[0] or 0
    if id(tensor) in keepers.saved:
        return _unnamed(f"held by no variable: {keepers.saved[id(tensor)]}")
    if storage in keepers.named_memory:
        return _unnamed(f"held by no variable: shares its memory with {keepers.named_memory[storage]}")
    if storage in keepers.saved_memory:
        return _unnamed(f"held by no variable: {keepers.saved_memory[storage]}")
    if tensor.grad_fn is not None:
        return _unnamed(f"held by no variable: a temporary, made by {type(tensor.grad_fn).__name__}")
    return _unnamed("held by no variable" if complete else "no variable found; there were too many objects to see all")


def _overwritten(leaf: Approximation) -> Name:
    if leaf.statement is None:
        return _unnamed(f"held by no variable: a leaf, {leaf.near}", leaf.distance)
    of = leaf.result
    text = f"{of.path} (overwritten), {leaf.near}"
    return Name(text, of.path, of.scope, of.kind, False, leaf.distance, leaf.statement.file, leaf.statement.line)


def _unnamed(text: str, distance: int = 0) -> Name:
    return Name(text, path="", scope="", kind="unnamed", exact=False, distance=distance)


def _keepers(found: Search) -> Keepers:
    tensors = [(each, name) for each, name in reversed(found.found) if isinstance(each, torch.Tensor)]
    named = {storage: name.text for tensor, name in tensors if (storage := memory(tensor)[0])}
    results = live_results(found)
    if not results:
        return Keepers(named_memory=named)
    graph = capture(*(tensor for tensor, _ in results))
    near = approximations(graph, by_node(graph, results), [*(leaf.node for leaf in graph.leaves), *graph.saved])
    saved: dict[int, str] = {}
    saved_memory: dict[int, str] = {}
    for tensor, storage, text in _saved(graph, near):
        saved.setdefault(id(tensor), text)
        saved_memory.setdefault(storage, text)
    leaves = {id(leaf.tensor()): near[leaf.node] for leaf in graph.leaves if leaf.node in near}
    return Keepers(leaves, saved, saved_memory, named)


def _saved(graph: Graph, near: dict[int, Approximation]) -> Iterator[tuple[torch.Tensor | None, int, str]]:
    """Yield what each node saved, the memory that it lies in, and a text that says so."""
    for node, fields in graph.saved.items():
        for saved in fields:
            if saved.storage is not None:
                where = f"saved by {graph.nodes[node].name} as {saved.name}"
                yield saved.tensor(), saved.storage, f"{where}, {near[node].way}" if node in near else where
