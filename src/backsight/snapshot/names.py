"""What the program calls a tensor, whoever holds it; and where no variable does, what keeps it alive instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from backsight.naming import Name, Search, search
from backsight.naming.plain import class_qualname
from backsight.snapshot.overwritten import Approximation, approximations, by_node, live_results
from backsight.tape import Graph, capture, made_by, no_torch_function
from backsight.tape.saved import memory


def name(tensor: torch.Tensor, *, deep: bool = False) -> Name:
    """Return what the program calls `tensor`.

    ```python
    backsight.name(model[0].weight).text    # 'model.0.weight (local of main)'
    ```

    A tensor that no variable holds gets a name with `exact=False`, whose text says what keeps it: a node of the graph,
    or nothing but the call itself. A leaf whose variable was overwritten is named after it, with the `distance`, in
    operations, to the result that has its name now.

    Args:
        tensor: any tensor, with or without a gradient.
        deep: also look into the modules of installed libraries, which may take a second.

    Raises:
        TypeError: if `tensor` is not a tensor.
    """
    if not issubclass(type(tensor), torch.Tensor):
        raise TypeError(f"name() takes a tensor, not {_kind(tensor)}.{_hint(tensor)}")
    return _named([tensor], deep)[0]


def names(tensors: Iterable[torch.Tensor], *, deep: bool = False) -> tuple[Name, ...]:
    """Return what the program calls each of `tensors`, in their order, all found in one pass. See `name`.

    ```python
    [n.path for n in backsight.names(model.parameters())]    # ['model.0.weight', 'model.0.bias']
    ```

    Args:
        tensors: any tensors; the container that they come in counts as a name, if a variable holds it.
        deep: also look into the modules of installed libraries, which may take a second.

    Raises:
        TypeError: if `tensors` is not an iterable of tensors.
    """
    return _named(_checked(tensors), deep)


def _named(tensors: list[torch.Tensor], deep: bool) -> tuple[Name, ...]:
    found = search(tensors, deep=deep)
    orphans = [t for t, names in zip(tensors, found.names, strict=True) if not names]
    told = iter(described(orphans, deep=deep, complete=found.complete))
    return tuple(names[0] if names else next(told) for names in found.names)


def _checked(tensors: Any) -> list[torch.Tensor]:
    if issubclass(type(tensors), torch.Tensor):
        raise TypeError("names() takes several tensors, in a list for instance; name(tensor) takes one.")
    if issubclass(type(tensors), torch.nn.Module) or not hasattr(type(tensors), "__iter__"):
        raise TypeError(f"names() takes several tensors, not {_kind(tensors)}.{_hint(tensors)}")
    several = list(tensors)
    for at, tensor in enumerate(several):
        if not issubclass(type(tensor), torch.Tensor):
            raise TypeError(f"names() takes tensors, and number {at} is {_kind(tensor)}.")
    return several


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {class_qualname(type(value))}"


def _hint(value: object) -> str:
    """Say what to call instead, where that is clear."""
    if issubclass(type(value), torch.nn.Module):
        return " For its parameters, call names(model.parameters())."
    if issubclass(type(value), (list, tuple, dict)):
        return " For several tensors, call names([...])."
    return ""


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
    if (node := made_by(tensor)) is not None:
        return _unnamed(f"held by no variable: a temporary, made by {type(node).__name__}")
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
