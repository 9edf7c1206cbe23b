"""The ranks of a training as one: shards joined and gradients averaged, to be compared with another number of ranks.

Each rank has a part of the batch, so operations have no counterpart in the other training: compared is what both hold
at the beginning and end of a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.traces.fingerprints import fingerprints
from backsight.traces.growth import loss_of, number_of
from backsight.traces.records import PRINT, Held, Shard, Trace, Value


def as_one(ranks: Sequence[Trace]) -> Trace:
    """Return what the ranks hold as one trace without operations; of one rank, that trace without them."""
    joining = _Joining(ranks)
    for held in ranks[0].held:
        joining.take(held)
    return joining.trace()


def losses(ranks: Sequence[Trace], step: int) -> float | None:
    """Return the mean of the losses of a step."""
    found = [number_of(trace, loss_of(trace, step)) for trace in ranks]
    known = [each for each in found if each is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None


class _Joining:
    def __init__(self, ranks: Sequence[Trace]):
        self._ranks = ranks
        self._places = [{_place(each): each.value for each in trace.held} for trace in ranks]
        self._values: list[Value] = []
        self._held: list[Held] = []
        self._prints: list[NDArray[np.void]] = []
        self._kept: dict[int, NDArray[np.generic]] = {}
        self._missed: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def take(self, held: Held) -> None:
        """Join what each rank holds here."""
        numbers = [places.get(_place(held)) for places in self._places]
        values = [
            trace.values[number] for trace, number in zip(self._ranks, numbers, strict=True) if number is not None
        ]
        if len(values) < len(self._ranks):
            self._miss("are not held by every rank", held)
            return
        shards = [trace.shards.get(each.number) for trace, each in zip(self._ranks, values, strict=True)]
        if all(each is not None and each.dimension >= 0 for each in shards):
            self._joined(held, values, [each for each in shards if each is not None])
        elif min(each.mark for each in values) < 0:
            self._miss("were not read, as {}: sparse, a partial sum, or split by two dimensions of a mesh", held)
        elif len({self._hash(k, each) for k, each in enumerate(values)}) == 1:
            self._add(held, values[0], self._print(0, values[0]), self._ranks[0].kept.get(values[0].mark))
        else:
            self._averaged(held, values)

    def trace(self) -> Trace:
        first = self._ranks[0]
        notes = [note for trace in self._ranks for note in trace.notes]
        notes += [
            f"{count:,} of the tensors it holds {what.format(self._examples[what])}"
            for what, count in self._missed.items()
        ]
        prints = np.array(self._prints, PRINT) if self._prints else np.zeros(0, PRINT)
        whole = tuple(step for step in first.whole if all(step in trace.whole for trace in self._ranks))
        return replace(
            first,
            whole=whole,
            operations=(),
            values=tuple(self._values),
            held=tuple(self._held),
            prints=prints,
            kept=self._kept,
            shards={},
            notes=tuple(notes),
        )

    def _miss(self, what: str, held: Held) -> None:
        """Count what is to be said of several tensors in one sentence, with the first of them as an example."""
        self._missed[what] += 1
        self._examples.setdefault(what, self._ranks[0].called(held.name))

    def _hash(self, rank: int, value: Value) -> int:
        return int(self._ranks[rank].prints[value.mark]["hash"]) if value.mark >= 0 else -1

    def _print(self, rank: int, value: Value) -> NDArray[np.void] | None:
        return self._ranks[rank].prints[value.mark] if value.mark >= 0 else None

    def _joined(self, held: Held, values: Sequence[Value], shards: Sequence[Shard]) -> None:
        """Join the parts of a tensor, in their order; what was not kept whole is left out, not to be compared."""
        parts: dict[int, tuple[NDArray[np.generic] | None, tuple[int, ...]]] = {}
        hashes: dict[int, int] = {}
        for rank, (trace, value, shard) in enumerate(zip(self._ranks, values, shards, strict=True)):
            parts.setdefault(shard.coordinate, (trace.kept.get(value.mark), value.shape))
            if hashes.setdefault(shard.coordinate, self._hash(rank, value)) != self._hash(rank, value):
                self._miss("differ between replicas, as {}: those of the first are compared", held)
        arrays = [
            array.reshape(shape)
            for _, (array, shape) in sorted(parts.items())
            if array is not None and array.size == np.prod(shape, dtype=int)
        ]
        whole = _concatenated(arrays, shards[0]) if len(arrays) == shards[0].parts else None
        tensor = _tensor(whole, values[0].dtype)
        if tensor is None:
            self._miss("are sharded, and were not kept whole: trace with --values to compare them", held)
        else:
            self._add(held, replace(values[0], shape=shards[0].shape), fingerprints([tensor])[0][0], whole)

    def _averaged(self, held: Held, values: Sequence[Value]) -> None:
        """Average gradients; of all else that differs between ranks, the first rank's counts."""
        if held.kind != "grad":
            self._miss("differ between ranks, as {}: those of rank 0 are compared", held)
            self._add(held, values[0], self._print(0, values[0]), self._ranks[0].kept.get(values[0].mark))
            return
        self._miss("are gradients that differ between ranks: their average is compared", held)
        kept = [trace.kept.get(value.mark) for trace, value in zip(self._ranks, values, strict=True)]
        arrays = [each.ravel() for each in kept if each is not None]
        whole = None
        if len(arrays) == len(kept) and len({each.size for each in arrays}) == 1:
            whole = np.mean([each.astype(np.float64) for each in arrays], 0)
        if (tensor := _tensor(whole, values[0].dtype)) is not None:
            self._add(held, values[0], fingerprints([tensor])[0][0], tensor.to(torch.float64).numpy())
        else:
            self._add(held, values[0], self._mean(values), None)

    def _mean(self, values: Sequence[Value]) -> NDArray[np.void]:
        """Return the fingerprint of an average: a projection is linear, and so is a mean; the norm is estimated."""
        rows = [trace.prints[value.mark] for trace, value in zip(self._ranks, values, strict=True)]
        row: NDArray[np.void] = rows[0].copy()
        row["sketch"] = np.mean([each["sketch"] for each in rows], 0)
        row["hash"] = 0
        mean = float(np.mean([each["stats"]["mean"] for each in rows]))
        square = float(np.square(row["sketch"]).sum())
        row["stats"]["mean"] = mean
        row["stats"]["m2"] = max(0.0, square - int(row["stats"]["count"]) * mean * mean)
        return row

    def _add(
        self, held: Held, value: Value, print_: NDArray[np.void] | None, whole: NDArray[np.generic] | None
    ) -> None:
        number, mark = len(self._values), -1
        if print_ is not None:
            mark = len(self._prints)
            self._prints.append(print_)
            if whole is not None:
                self._kept[mark] = whole
        self._values.append(replace(value, number=number, mark=mark, maker=-1))
        self._held.append(replace(held, value=number))


def _concatenated(arrays: Sequence[NDArray[np.generic]], shard: Shard) -> NDArray[np.generic] | None:
    """Return parts as the whole that they are said to be; None where they do not make it."""
    try:
        whole = np.concatenate(arrays, shard.dimension)
    except (ValueError, IndexError):  # of a trace that is damaged
        return None
    return whole if whole.shape == shard.shape else None


def _tensor(whole: NDArray[np.generic] | None, dtype: str) -> torch.Tensor | None:
    """Return numbers that have been joined as a tensor; None where there are none, or no tensor holds them."""
    kind = getattr(torch, dtype, None)
    if whole is None or not isinstance(kind, torch.dtype) or kind.is_complex:
        return None
    try:
        return torch.from_numpy(whole).to(kind)
    except (RuntimeError, TypeError):
        return None


def _place(held: Held) -> tuple[int, str, str, str]:
    return held.step, held.at, held.kind, held.name
