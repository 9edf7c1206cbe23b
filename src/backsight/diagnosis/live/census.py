"""Every tensor of the process that has a history, and the graphs behind them, taken apart so that none share any."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.naming.elsewhere import trains_elsewhere
from backsight.naming.roots import is_ours, is_user
from backsight.tape import CHECKED, NO_SEQUENCE, RAW, alive, forward_class, grad_fn, looks_into, storage_key, version
from backsight.tape.saved import kept_by, memory, was_freed
from backsight.tape.walk import Walk

_STANDARD = sysconfig.get_path("stdlib")

# Bound once: they are asked of every tensor of the process.
_TENSOR: Any = torch.Tensor
_requires_grad: Callable[[object], bool] = _TENSOR.requires_grad.__get__
_is_leaf: Callable[[object], bool] = _TENSOR.is_leaf.__get__


def with_history() -> list[torch.Tensor]:
    """Return the tensors that operations have made and whose graph is alive, and gradients that have one.

    A tensor that is only held by C++ is not listed, but its graph is, where a variable holds something further on.
    """
    found, leaves = _told_apart(alive(torch.Tensor))
    if not trains_elsewhere():
        known = set(map(id, found))
        gradients = [each for each in map(_gradient, leaves) if each is not None and id(each) not in known]
        found += _told_apart(gradients)[0]
    return found


def maker(tensor: torch.Tensor) -> object | None:
    """Return the node that made a tensor; of a view that may be out of date, the one that made what it looks into.

    Autograd mends the history of such a view when it is asked for it, by a new node. Of a view that a graph has saved
    that may close a circle in C++ which nothing frees. So it is not asked.

    Source: torch/csrc/autograd/variable.cpp, `VariableHooks::grad_fn`.
    """
    base = _changed_base(tensor)
    try:
        node: object | None = grad_fn(tensor if base is None else base)
    except RuntimeError:  # a view whose history was lost
        return None
    return node


def _changed_base(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return what a view looks into, if that was ever changed in place; None for all other tensors."""
    base = looks_into(tensor)
    return base if base is not None and version(tensor) else None


def _told_apart(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the tensors that have a history, and the leaves that require a gradient."""
    found: list[torch.Tensor] = []
    leaves: list[torch.Tensor] = []
    for tensor in tensors:
        try:
            if _requires_grad(tensor):
                base = _changed_base(tensor)
                if base is not None:
                    if not _is_leaf(base):
                        found.append(tensor)
                else:
                    (leaves if _is_leaf(tensor) else found).append(tensor)
        except RuntimeError:  # a view whose history was lost, an inference tensor
            continue
    return found, leaves


def _gradient(leaf: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of a leaf, which Python need not know: `backward(create_graph=True)` gives it a graph."""
    try:
        gradient: torch.Tensor | None = _TENSOR.grad.__get__(leaf)
    except RuntimeError:  # wrapper subclasses may refuse
        return None
    return gradient


def works_elsewhere() -> bool:
    """Whether another thread runs code of the program's: its tensors may change while they are looked at.

    One that waits, as in a queue, or that is ours or a library's alone, has no frame of the program's at its end.
    """
    stacks = sys._current_frames()
    del stacks[threading.get_ident()]
    return any(_works(frame) for frame in stacks.values())


def _works(innermost: FrameType) -> bool:
    """Whether a thread is in code of the program's, or in PyTorch called by it; not where it waits in the standard
    library.

    One in a hook of ours goes on in its backward as soon as it has the GIL, whatever it calls there.
    """
    waits = _is_standard(innermost.f_code.co_filename)
    frame: FrameType | None = innermost
    while frame is not None and ((ours := is_ours(frame.f_code.co_filename)) or not is_user(frame)):
        waits = waits and not ours
        frame = frame.f_back
    return frame is not None and not waits


def _is_standard(filename: str) -> bool:
    return filename.startswith(_STANDARD) and "-packages" not in filename


_Label = NDArray[np.int64]


@dataclass(frozen=True)
class Pinned:
    """What the nodes of one graph keep for their backward: bytes by memory, and whether a backward has freed it."""

    memory: dict[int, int]
    freed: bool


def labels(live: Walk) -> _Label:
    """Return for each node the position of the first node of its graph; a leaf, which many may share, is on its own.

    Connected components, by hooking roots to smaller ones and halving paths until nothing changes: a few passes over
    the edges however deep the graphs are (Shiloach and Vishkin, 1982).
    """
    consumer = np.repeat(np.arange(len(live.nodes)), np.diff(live.start))
    is_leaf = live.sequence == np.uint64(NO_SEQUENCE)
    inner = (live.inputs >= 0) & ~is_leaf[live.inputs]
    above, below = consumer[inner], live.inputs[inner]
    label: _Label = np.arange(len(live.nodes))
    while True:
        one, other = label[above], label[below]
        apart = one != other
        if not apart.any():
            return label
        above, below, one, other = above[apart], below[apart], one[apart], other[apart]
        np.minimum.at(label, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(shorter := label[label], label):
            label = shorter


def without_consumer(live: Walk) -> NDArray[np.bool_]:
    """Return which nodes no other consumes: only something outside of the graph can hold these."""
    free = np.ones(len(live.nodes), bool)
    free[live.inputs[live.inputs >= 0]] = False
    return free


def leaf_memory(live: Walk) -> set[int]:
    """Return the memory of the leaves: it is the parameters' own, and no graph pins it."""
    at = np.flatnonzero(live.sequence == np.uint64(NO_SEQUENCE)).tolist()
    known = (memory(live.nodes[i].variable)[0] for i in at if hasattr(live.nodes[i], "variable"))
    return {each for each in known if each is not None}


def pinned(nodes: Iterable[Any], own: set[int]) -> Pinned:
    """Return what `nodes` keep alive, apart from the memory in `own`. Nothing is unpacked or recomputed."""
    kept: dict[int, int] = {}
    released = False
    for node in nodes:
        node_type = type(node)
        fields = _readers[node_type] if node_type in _readers else _learn(node_type)
        if fields is None:
            released |= _of_custom(node, kept)
            continue
        for read, unpack in fields:
            try:
                raw = read(node)
            except RuntimeError:  # a list of saved tensors that was freed says so by raising
                released = True
                continue
            many = type(raw) in (tuple, list)
            for each in raw if many else (raw,):
                data: Any = getattr(each, "data", None)
                if issubclass(type(data), torch.Tensor):
                    storage, size = _memory(data)
                    kept[storage] = size
                elif type(data) in (tuple, list):  # what a hook has packed: `save_on_cpu` keeps (device, tensor)
                    kept.update(_memory(part) for part in data if issubclass(type(part), torch.Tensor))
                elif data is None and not many and not released:
                    released = was_freed(each, partial(unpack, node))
    for storage in own & kept.keys():
        del kept[storage]
    return Pinned(kept, freed=released and not kept)


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    try:
        storage = tensor.untyped_storage()
        return storage_key(storage), storage.nbytes()
    except (RuntimeError, NotImplementedError):  # sparse and opaque tensors have none
        identity, size, _ = memory(tensor)
        return identity or 0, size


def _of_custom(node: Any, kept: dict[int, int]) -> bool:
    """Add what a custom Function's node keeps, and return whether it was freed."""
    found = kept_by(node)
    kept.update({saved.storage: saved.storage_bytes for saved in found if saved.storage is not None})
    return any(saved.state == "freed" for saved in found)


_Readers = tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...]

_readers: dict[type, _Readers | None] = {}
"""By type of node, what reads each of its saved tensors, and what unpacks it; None for custom Functions."""


def _learn(node_type: type) -> _Readers | None:
    if forward_class(node_type) is not None:
        return None  # made by a class statement, and not remembered: a remembered one could never be freed
    names = [name.removeprefix(RAW) for name in dir(node_type) if name.startswith(RAW)]
    fields = ((getattr(node_type, RAW + name), getattr(node_type, CHECKED + name)) for name in names)
    _readers[node_type] = tuple((raw.__get__, checked.__get__) for raw, checked in fields)
    return _readers[node_type]
