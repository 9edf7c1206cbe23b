"""The ledger of a traced step: which value a tensor is, by where it lies, and which operation wrote it last.

Only the memory tells that a tensor is the result of an operation: autograd hands saved tensors on as new objects. The
memory is known by a weak reference, since what is freed is soon another tensor's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from backsight.tape import storage_key, version
from backsight.traces._torch import answers_itself
from backsight.traces.fingerprints import fingerprint, is_small_and_sparse

Layout = tuple[Any, ...]

Kept = Callable[[int, bytes, torch.Tensor], None]
"""Told of each new fingerprint: its number, its row, and the tensor in plain memory."""

Met = Callable[[list[Any]], None]
"""Told of each new value: the fields of `Value` without the number, as they are stored."""


@dataclass
class _Memory:
    """What is known of one storage."""

    storage: weakref.ref[Any]
    writer: int = -1
    values: dict[Layout, tuple[int, int | None]] = field(default_factory=dict)
    """By layout, the number of the value and the version that it had, None where that is told when it is next met."""
    names: dict[Layout, str] = field(default_factory=dict)
    """What the program calls what lies there: of this storage, and of no later one at the same address."""
    marks: dict[Layout, int] = field(default_factory=dict)
    """Fingerprints by what does not depend on the shape."""


class Ledger:
    """Gives tensors their values.

    kept: told of fingerprints; met: told of values.
    """

    def __init__(self, kept: Kept, met: Met):
        self._kept, self._met = kept, met
        self._memories: dict[int, _Memory] = {}
        self._values = self._marks = 0

    @property
    def count(self) -> int:
        """How many values there are."""
        return self._values

    def forget(self) -> None:
        """Let go of what is known of memory; numbers go on."""
        self._memories.clear()

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """Say what the program calls a tensor, wherever it is met in this step."""
        storage = _storage(tensor)
        if storage is not None:
            self._memory(storage).names.setdefault(_layout(tensor), name)

    def recheck(self, tensors: Iterable[torch.Tensor]) -> None:
        """Forget what these tensors held: batch normalization writes to its statistics and neither its schema nor their
        version counters say so."""
        for tensor in tensors:
            self._overwritten(tensor, -1)

    def of(self, tensors: Iterable[torch.Tensor], otherwise: int = -1) -> list[int]:
        """Return the numbers of the values that these tensors are now.

        otherwise: the operation that has made what is not known, as a module whose inside is compiled.
        """
        return [self._known(tensor, otherwise=otherwise) for tensor in tensors]

    def made(
        self, tensors: Iterable[torch.Tensor], by: int, *, written: bool = False, blank: bool = False
    ) -> list[int]:
        """Return the numbers of new values: what an operation has made, or (`written`) written to.

        blank: whether nothing has been written there yet, so that there are no numbers to read.
        """
        held = list(tensors)
        if written:
            for tensor in held:
                self._overwritten(tensor, by)
        return [self._known(tensor, by, blank=blank) for tensor in held]

    def _overwritten(self, tensor: torch.Tensor, by: int) -> None:
        storage = _storage(tensor)
        if storage is not None:
            memory = self._memory(storage)
            memory.writer = by
            memory.values.clear()
            memory.marks.clear()

    def _known(self, tensor: torch.Tensor, by: int | None = None, *, otherwise: int = -1, blank: bool = False) -> int:
        storage = _storage(tensor)
        if storage is None:
            return self._new(tensor, self._mark_of_sparse(tensor), otherwise if by is None else by, "")
        memory, layout, now = self._memory(storage), _layout(tensor), version(tensor)
        found = memory.values.get(layout)  # of what an operation returned too, where that is what it was given
        if found is not None:
            number, then = found
            if by is not None or then is None or then == now:
                memory.values[layout] = number, now if by is None else then
                return number
            memory.values.clear()  # written to by something that no mode sees
            memory.marks.clear()
            memory.writer = -1
        maker = by if by is not None else memory.writer if memory.writer != -1 else otherwise
        mark = -1 if blank else self._mark(tensor, memory)
        number = self._new(tensor, mark, maker, memory.names.get(layout, ""))
        # What an operation hands to a mode gets its version counter later, and then counts the very write as well.
        memory.values[layout] = number, now if by is None else None
        if by is not None and memory.writer == -1 and not memory.values.keys() - {layout}:
            memory.writer = by
        return number

    def _mark(self, tensor: torch.Tensor, memory: _Memory) -> int:
        """Return the number of the fingerprint of a tensor, which views of the same elements in one order share."""
        key: Layout = (
            (tensor.storage_offset(), tensor.numel(), tensor.dtype) if tensor.is_contiguous() else _layout(tensor)
        )
        if (found := memory.marks.get(key)) is None:
            row, plain = fingerprint(tensor)
            if plain is None:
                return -1
            found = memory.marks[key] = self._marks
            self._marks += 1
            self._kept(found, row, plain)
        return found

    def _mark_of_sparse(self, tensor: torch.Tensor) -> int:
        """Return the number of the fingerprint of what a sparse tensor is as a dense one; -1 of any other."""
        row, plain = fingerprint(tensor) if is_small_and_sparse(tensor) else (b"", None)
        if plain is None:
            return -1
        self._marks += 1
        self._kept(self._marks - 1, row, plain)
        return self._marks - 1

    def _memory(self, storage: Any) -> _Memory:
        key = storage_key(storage)
        memory = self._memories.get(key)
        if memory is None or memory.storage() is not storage:
            memory = self._memories[key] = _Memory(weakref.ref(storage))
        return memory

    def _new(self, tensor: torch.Tensor, mark: int, maker: int, name: str) -> int:
        number = self._values
        self._values += 1
        self._met([tuple(tensor.shape), _called(tensor.dtype), _called(tensor.device), mark, maker, name])
        return number


@cache
def _called(what: torch.dtype | torch.device) -> str:
    return str(what).removeprefix("torch.")


def _storage(tensor: torch.Tensor) -> Any:
    if answers_itself(type(tensor)):  # its memory, if it has any, is not what it stands for
        return None
    try:
        return tensor.untyped_storage() if tensor.layout == torch.strided else None
    except (RuntimeError, NotImplementedError):  # opaque and functorch tensors
        return None


def _layout(tensor: torch.Tensor) -> Layout:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype
