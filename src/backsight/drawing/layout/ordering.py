"""The order of boxes within each rank: few crossings, by the barycentre method (Sugiyama, Tagawa and Toda, 1981)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from backsight.drawing.layout.columns import Joint

SWEEPS = 8


def ordered(
    layers: Sequence[Sequence[int]],
    up: Sequence[Sequence[Joint]],
    down: Sequence[Sequence[Joint]],
    key: Sequence[float],
) -> list[list[int]]:
    """Return `layers` sorted so that few wires cross; of equally good orders the one nearest to `key`.

    Args:
        layers: the boxes of each rank.
        up: for each box, those that it is joined to in the rank above.
        down: the same for the rank below.
        key: the order to begin with.
    """
    now = [sorted(layer, key=key.__getitem__) for layer in layers]
    best, fewest = now, crossings(now, down)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        now = _swept(now, up if sweep % 2 == 0 else down, upwards=sweep % 2 == 1)
        count = crossings(now, down)
        if count < fewest:
            best, fewest = now, count
    return best


def _swept(layers: Sequence[Sequence[int]], joined: Sequence[Sequence[Joint]], *, upwards: bool) -> list[list[int]]:
    """Sort each rank by the mean position of what its boxes are joined to in the rank before."""
    out = [list(layer) for layer in layers]
    place: dict[int, float] = {}
    for k in range(len(out) - 1, -1, -1) if upwards else range(len(out)):
        own = {v: i - (len(out[k]) - 1) / 2 for i, v in enumerate(out[k])}
        mean = {
            v: sum(place[j.box] + j.there for j in joined[v]) / len(joined[v]) if joined[v] else own[v] for v in out[k]
        }
        out[k].sort(key=mean.__getitem__)
        place.update({v: i - (len(out[k]) - 1) / 2 for i, v in enumerate(out[k])})
    return out


def crossings(layers: Sequence[Sequence[int]], down: Sequence[Sequence[Joint]]) -> int:
    """Return how many wires cross between neighbouring ranks: inversions, counted with a Fenwick tree."""
    total = 0
    for upper, lower in itertools.pairwise(layers):
        place = {v: i for i, v in enumerate(lower)}
        wires = sorted((i + j.here, place[j.box] + j.there) for i, v in enumerate(upper) for j in down[v])
        number = {end: i + 1 for i, end in enumerate(sorted({end for _, end in wires}))}
        tree = [0] * (len(number) + 1)
        for seen, (_, end) in enumerate(wires):
            i, not_right = number[end], 0
            while i:
                not_right += tree[i]
                i &= i - 1
            total += seen - not_right
            i = number[end]
            while i < len(tree):
                tree[i] += 1
                i += i & -i
    return total
