"""What a captured CUDA graph keeps for good: the memory that it reads, and the numbers that an optimizer had then.

A replay launches the same work on the same memory. It sees what is copied into that memory, and neither a new tensor
under an old name nor a learning rate that is a number. Replays make no calls that could be seen, so it is looked
whenever the program calls PyTorch between them, for some time.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from backsight.naming.frames import frame_namespace, is_function, locals_of
from backsight.naming.plain import namespace
from backsight.snapshot import groups
from backsight.tape import grad_fn, is_captured, storage_key
from backsight.tape.saved import saved_by
from backsight.tracing.changes import version
from backsight.tracing.program import innermost

_MOST_LOOKS = 512
_MOST_NODES = 1024
_MOST_FRAMES = 32
_ENOUGH = 3
"""Other tensors that a name must have stood for since; the first may be for something else."""
_LASTING = 8
"""Looks at which a number must have been another one: a graph may be captured anew after it has changed."""


@dataclass(eq=False)
class Input:
    """A tensor that a captured graph reads, under a name of a function of the program, or `self.name` of one."""

    code: CodeType
    name: str
    tensor: weakref.ref[torch.Tensor]
    site: int
    holder: weakref.ref[Any] | None = None
    version: int | None = None
    times: int = 0
    last: int = 0


@dataclass(eq=False)
class Baked:
    """A number of a group of an optimizer whose step was captured at a site: what it was then, and what it became."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    kind: str
    capturable: bool
    device: str
    option: str
    group: int
    site: int
    was: float
    now: float = 0.0
    times: int = 0


class Captures:
    """What was captured while the program was watched, and what became of it."""

    def __init__(self) -> None:
        self._inputs: list[Input] = []
        self._baked: list[Baked] = []
        self._looks = 0
        self.is_open = False

    def begun(self, roots: Any, site: int, caller: FrameType | None) -> None:
        """Note that a backward begins: a captured one reads what is found here, and one that runs reads what is new."""
        if not is_captured():
            for each in self._inputs:
                each.times = 0
            return
        read = _read_by(roots)
        here = innermost(caller)
        self._inputs = [each for each in self._inputs if each.site != site]
        for frame in _frames(here):
            for name, tensor, holder in _held(frame):
                if not tensor.requires_grad and _key(tensor) in read:
                    held = weakref.ref(holder) if holder is not None else None
                    self._inputs.append(Input(frame.f_code, name, weakref.ref(tensor), site, held))
        self._open()

    def stepped(self, optimizer: torch.optim.Optimizer, site: int) -> None:
        """Note a step: one that is captured keeps the numbers of its groups, one that runs has those of now."""
        self._baked = [each for each in self._baked if each.optimizer() not in (None, optimizer)]
        if not is_captured():
            return
        for at, group in enumerate(groups(optimizer)):
            device = next((str(p.device) for p in group["params"]), "cuda")
            for option, value in group.items():
                if type(value) is float:
                    of = type(optimizer).__name__, "capturable" in group, device
                    self._baked.append(Baked(weakref.ref(optimizer), *of, option, at, site, value))
        self._open()

    def _open(self) -> None:
        self._looks, self.is_open = 0, True

    def look(self, caller: FrameType | None) -> None:
        """Look, between two calls of the program, whether names and numbers have become others."""
        if is_captured():
            return
        self._looks += 1
        self.is_open = self._looks < _MOST_LOOKS and bool(self._inputs or self._baked)
        self._look_at_numbers()
        frames = {frame.f_code: frame for frame in _frames(innermost(caller))} if self._inputs else {}
        for each in list(self._inputs):
            tensor = each.tensor()
            now = _now(each, frames)
            if tensor is None:
                self._inputs.remove(each)
            elif each.version is None:
                each.version = version(tensor)
            elif version(tensor) != each.version:
                self._inputs.remove(each)
            elif now is not None and now is not tensor and id(now) != each.last and _alike(now, tensor):
                each.times, each.last = each.times + 1, id(now)

    def _look_at_numbers(self) -> None:
        for each in self._baked:
            optimizer = each.optimizer()
            held = groups(optimizer) if optimizer is not None else []
            value = held[each.group].get(each.option) if each.group < len(held) else None
            if type(value) is float and value != each.was:
                each.now, each.times = value, each.times + 1

    def stale(self) -> list[Input]:
        """Return the names that stood for other tensors, though the graph goes on with those of its capture."""
        return [each for each in self._inputs if each.times >= _ENOUGH]

    def outdated(self) -> list[Baked]:
        """Return the numbers that have become others, though the graph goes on with those of its capture."""
        return [each for each in self._baked if each.times >= _LASTING]


def _read_by(roots: Any) -> set[int]:
    """Return the memory that the nodes of a graph have saved, of what requires no gradient."""
    given = roots if isinstance(roots, tuple | list) else [roots]
    nodes = [node for each in given if isinstance(each, torch.Tensor) and (node := grad_fn(each)) is not None]
    seen, read = set(nodes), set[int]()
    for node in nodes:  # grows as we go
        read |= {saved.storage for saved in saved_by(node) if saved.storage is not None and not saved.requires_grad}
        for other, _ in node.next_functions:
            if other is not None and other not in seen and len(nodes) < _MOST_NODES:
                seen.add(other)
                nodes.append(other)
    return read


def _key(tensor: torch.Tensor) -> int | None:
    return storage_key(tensor.untyped_storage()) if tensor.layout == torch.strided else None


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        yield frame
        frame = innermost(frame.f_back)


def _variables(frame: FrameType) -> dict[str, object]:
    return locals_of(frame) if is_function(frame) else frame_namespace(frame)


def _held(frame: FrameType) -> Iterator[tuple[str, torch.Tensor, object | None]]:
    """Yield the tensors that names of a frame hold, and the attributes of its `self` that are no module's."""
    for name, value in list(_variables(frame).items()):
        if type(value) is torch.Tensor:
            yield name, value, None
        elif name == "self":
            for attribute, held in list((namespace(value) or {}).items()):
                if type(held) is torch.Tensor:
                    yield attribute, held, value


def _now(each: Input, frames: dict[CodeType, FrameType]) -> torch.Tensor | None:
    """Return the tensor that a name stands for now; None where nobody can tell."""
    if each.holder is not None:
        held = (namespace(each.holder()) or {}).get(each.name)
    else:
        held = _variables(frames[each.code]).get(each.name) if each.code in frames else None
    return held if type(held) is torch.Tensor else None


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)
