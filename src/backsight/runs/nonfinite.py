"""Where NaN or infinity came in: found by the indexes, without reading the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from backsight.runs.catalogue import Catalogue
from backsight.runs.gathering import Query, statistics
from backsight.runs.rank import Rank


@dataclass(frozen=True)
class NonFinite:
    """A tensor that held NaN or infinite elements, and when."""

    tensor: str
    kind: str
    module: str | None
    step: int
    call: int
    rank: int
    nans: int
    infs: int


def first_nonfinite(ranks: dict[int, Rank], known: Catalogue) -> NonFinite | None:
    """Return the first row that was not finite: of the earliest such step, in the order in which they came about."""
    for step in sorted({step for rank in ranks.values() for step in rank.nonfinite_steps()}):
        if found := min(_in_step(ranks, known, step), key=lambda each: each[0], default=None):
            return found[1]
    return None


def _in_step(ranks: dict[int, Rank], known: Catalogue, step: int) -> Iterator[tuple[tuple[int, int], NonFinite]]:
    query = Query(tuple(known.tensors), slice(step, step + 1))
    for number, rank in ranks.items():
        rows = statistics({number: rank}, known, query)
        for k in np.flatnonzero(rows["nans"] + rows["infs"] > 0).tolist():
            held = known.entries[int(rows["entry"][k])]
            call, nans, infs, order = (int(rows[name][k]) for name in ("call", "nans", "infs", "order"))
            yield (order, number), NonFinite(held.name, held.kind, held.module, step, call, number, nans, infs)
