"""Which variables hold the tensors of live graphs, found in bounded time however many there are."""

from __future__ import annotations

import gc
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, starmap
from typing import Any

import torch

from backsight.naming import Name, search

Weak = Callable[[], torch.Tensor | None]
"""Strong references of ours would be found as holders."""

_NUMBER = re.compile(r"\[\d+\]")
_WITHIN = re.compile(r"(?<=\[…\])(\[[^\[\]]*\])+$")
"""What follows the number: `[1]` in `history[…][1]`, for a list of pairs."""

_ASKED = 1000
"""Graphs whose tensors are looked for one by one; those of a list are then told by the list."""

_BUDGET = 150_000
"""Objects that one search may visit: a tenth of a second."""

_ROUNDS = 3
"""Containers that are looked for, each of which may hold any number of graphs."""

_CONTAINERS = (list, dict, deque)


def names_of(pieces: Sequence[Sequence[Weak]]) -> list[list[Name]]:
    """Return the names for each graph, of which some tensors are given, the best first.

    A tensor deep in the user's data may lie beyond what a search can visit. Then the collector is asked what refers to
    it, and if that is a list with a name, the list names all that it holds.
    """
    named: list[list[Name]] = [[] for _ in pieces]
    targets = [(at, tensor) for at, refs in enumerate(pieces[:_ASKED]) for ref in refs if (tensor := ref()) is not None]
    for (at, _), found in zip(targets, _search([tensor for _, tensor in targets]), strict=True):
        named[at] += found
    del targets
    for _ in range(_ROUNDS):
        if not (unnamed := [at for at, names in enumerate(named) if not names]):
            break
        items = _items_beside(pieces[unnamed[0]])
        if not items:
            break
        for at in unnamed:
            tensors = (ref() for ref in pieces[at])
            named[at] += [items[id(tensor)] for tensor in tensors if tensor is not None and id(tensor) in items]
    _prefer_collections(named)
    return named


def pattern(name: Name) -> tuple[str, str]:
    """Return the scope, and the name without numbers: what the elements of one list have in common."""
    return name.scope, _WITHIN.sub("", _NUMBER.sub("[…]", name.path))


def _search(targets: Sequence[object]) -> tuple[tuple[Name, ...], ...]:
    return search(targets, limit=2, budget=_BUDGET).names if targets else ()


def _items_beside(refs: Sequence[Weak]) -> dict[int, Name]:
    """Return the names of everything in the containers that hold one of these tensors, by id."""
    sample = [tensor for ref in refs if (tensor := ref()) is not None]
    holders = [each for each in _referrers_but_tuples(sample) if type(each) in _CONTAINERS and each is not sample]
    del sample
    found = zip(holders, _search(holders), strict=True)
    return {key: name for holder, names in found if names for key, name in _items(holder, names[0])}


def _referrers_but_tuples(objects: list[Any]) -> list[Any]:
    """Return what refers to one of these, tuples left out.

    Another thread may be building one of the tuples, and fails to finish it if somebody holds it then. So they pass
    through one call of a function written in C, `list`, which no other thread interrupts, and no variable holds what
    they pass through.

    Source: CPython, Objects/tupleobject.c, `_PyTuple_Resize`.
    """
    none_of_tuples: Callable[..., Any] = {tuple: ()}.get  # asked with a type, and what is of that type
    found = chain.from_iterable(starmap(gc.get_referrers, [objects]))  # nobody is asked before `list` is
    return list(chain.from_iterable(starmap(none_of_tuples, groupby(found, key=type))))


def _items(container: Any, of: Name) -> Iterator[tuple[int, Name]]:
    entries = container.items() if type(container) is dict else enumerate(container)
    for key, item in list(entries):
        if type(key) in (str, int) and issubclass(type(item), torch.Tensor):
            path = f"{of.path}[{key!r}]"
            yield id(item), replace(of, path=path, text=of.text.replace(of.path, path, 1), kind="item")


def _prefer_collections(named: list[list[Name]]) -> None:
    """Put the name in a list that holds more of the graphs before one that only this graph has: `loss` is its last."""
    number = Counter(each for names in named for each in {pattern(name) for name in names})
    for names in named:
        names.sort(key=lambda name: -number[pattern(name)])
