"""The order of boxes within each rank: few crossings, by the barycentre method (Sugiyama, Tagawa and Toda, 1981)."""

from __future__ import annotations

from collections.abc import Sequence

SWEEPS = 8


def ordered(
    layers: Sequence[Sequence[int]], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]], key: Sequence[float]
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


def _swept(layers: Sequence[Sequence[int]], joined: Sequence[Sequence[int]], *, upwards: bool) -> list[list[int]]:
    """Sort each rank by the mean position of what its boxes are joined to in the rank before."""
    out = [list(layer) for layer in layers]
    place: dict[int, float] = {}
    for k in range(len(out) - 1, -1, -1) if upwards else range(len(out)):
        own = {v: i - (len(out[k]) - 1) / 2 for i, v in enumerate(out[k])}
        mean = {v: sum(place[u] for u in joined[v]) / len(joined[v]) if joined[v] else own[v] for v in out[k]}
        out[k].sort(key=mean.__getitem__)
        place.update({v: i - (len(out[k]) - 1) / 2 for i, v in enumerate(out[k])})
    return out


def crossings(layers: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    """Return how many wires cross between neighbouring ranks: inversions, counted with a Fenwick tree."""
    total = 0
    for upper, lower in zip(layers, layers[1:], strict=False):
        place = {v: i for i, v in enumerate(lower)}
        tree = [0] * (len(lower) + 1)
        seen = 0
        for v in upper:
            ends = sorted(place[w] for w in down[v])
            for end in ends:
                i, left = end + 1, 0
                while i:
                    left += tree[i]
                    i &= i - 1
                total += seen - left
            for end in ends:
                i = end + 1
                while i < len(tree):
                    tree[i] += 1
                    i += i & -i
            seen += len(ends)
    return total
