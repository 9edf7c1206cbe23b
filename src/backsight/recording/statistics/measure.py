"""The statistics of a list of tensors, each by the way that suits it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from backsight.recording.statistics import native, plain, triton_launch
from backsight.recording.statistics._torch import without_modes, without_overrides
from backsight.recording.statistics.measured import Measured, Weight, unmeasured
from backsight.recording.statistics.source import Source, Unreadable, source
from backsight.tape import is_captured


def measure(tensors: Sequence[torch.Tensor], *, histogram: bool = True) -> Measured:
    """Return count, mean, m2, minimum, maximum, zeros, NaNs, infinities and log2 histogram of each tensor.

        measured = measure([p for p in model.parameters()])
        measured.rows["max"], measured.histograms[0]

    Nothing of the tensors is kept, no user's override is run, and no device is waited for: `Measured` waits when it is
    looked at. A tensor that cannot be read is in `skipped`, with the reason. The histogram counts all elements of a
    tensor of up to 65,536, and 512 of every 8,192 of a larger one; `sampled` says how many, and `negatives` how many of
    them are below zero.

    Source: the layout of a row is `backsight.runs.STATISTICS`.
    """
    held = list(tensors)
    with without_overrides():
        if not native.available():
            return _with_sources(None, *_sources(held, range(len(held))), len(held), histogram)
        arrays = native.arrays(held)
        if not arrays.others:
            return Measured(native.run(arrays, histogram), {})
        return _with_sources(arrays, *_sources(held, arrays.others), len(held), histogram)


def _sources(tensors: list[torch.Tensor], indexes: Iterable[int]) -> tuple[dict[int, Source], dict[int, str]]:
    """What to read of the tensors at these indexes, and why there is nothing to read of the rest."""
    found: dict[int, Source] = {}
    skipped: dict[int, str] = {}
    captured = is_captured()
    with torch.no_grad(), without_modes():
        for index in indexes:
            if captured and not tensors[index].is_cpu:
                skipped[index] = "is part of a CUDA graph that is being captured, and has no values yet"
                continue
            tensor = tensors[index]
            try:
                found[index] = Source(tensor) if triton_launch.lies_there(tensor) else source(tensor)
            except Unreadable as reason:
                skipped[index] = str(reason)
    return found, skipped


def _with_sources(
    arrays: native.Arrays | None,
    sources: dict[int, Source],
    skipped: dict[int, str],
    count: int,
    histogram: bool,
) -> Measured:
    """Measure what has been made readable together with the arrays; without those, all by PyTorch's operations."""
    elsewhere: dict[torch.device, dict[int, torch.Tensor]] = {}
    for index, found in sources.items():
        if arrays is not None and found.numbers.is_cpu:
            arrays.put(index, found.numbers)
        else:
            elsewhere.setdefault(found.numbers.device, {})[index] = found.numbers
    numbers = unmeasured(count, histogram) if arrays is None else native.run(arrays, histogram)
    with torch.no_grad(), without_modes():
        late = tuple(_on_the_way(tensors, histogram) for tensors in elsewhere.values())
    weights = {i: Weight(found.copies, found.zeros) for i, found in sources.items() if found[1:] != (1, 0)}
    return Measured(numbers, skipped, late, weights)


def _on_the_way(tensors: dict[int, torch.Tensor], histogram: bool) -> plain.OnTheWay:
    """Queue the measuring of tensors of one device: by one kernel what it takes, the rest operation by operation."""
    taken = {index: numbers for index, numbers in tensors.items() if triton_launch.takes(numbers)}
    at_once = triton_launch.queued(taken, histogram) if taken else None
    if at_once is None:
        return plain.OnTheWay(plain.queued(tensors, histogram))
    rest = {index: numbers for index, numbers in tensors.items() if index not in taken}
    return plain.OnTheWay(at_once, plain.queued(rest, histogram))
