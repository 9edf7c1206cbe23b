"""Which row of the picture each box stands in."""

from __future__ import annotations

from collections.abc import Sequence


def ranks(n: int, wires: Sequence[tuple[int, int]], entries: Sequence[int], exits: Sequence[int]) -> list[int]:
    """Return a rank for each of `n` boxes, smaller at the producer than at the consumer of every wire.

    Each stands as high as its producers let it, but what depends on no entry stands right above what it feeds: a loss
    term made of weights alone belongs beside the loss, not beside the input. Where nothing comes in, the box at which
    the longest way begins counts as the entry.

    ```python
    ranks(4, [(0, 1), (1, 2), (3, 2)], (), ())      # [0, 1, 2, 1]
    ```

    Args:
        n: how many boxes there are; every wire leads from a smaller number to a larger one, entries and exits apart.
        wires: (producer, consumer).
        entries: boxes that stand above all others: where wires come in from outside.
        exits: boxes that stand below all others.
    """
    after: list[list[int]] = [[] for _ in range(n)]
    before: list[list[int]] = [[] for _ in range(n)]
    for a, b in wires:
        after[a].append(b)
        before[b].append(a)
    fixed = set(entries)
    order = [*entries, *(v for v in range(n) if v not in fixed and v not in set(exits)), *exits]
    rank = [-1 if v in fixed else 0 for v in range(n)]
    inner = [v for v in order if v not in fixed and v not in set(exits)]
    main = _main(inner, before, after) if not fixed else None
    free = [v not in fixed and v != main for v in range(n)]
    for v in order:
        if v not in fixed:
            rank[v] = max((rank[u] + 1 for u in before[v]), default=0)
            free[v] = free[v] and all(free[u] for u in before[v])
    bottom = max((rank[v] for v in inner), default=-1) + 1
    for v in exits:
        rank[v] = bottom
    for v in reversed(inner):
        if free[v] and after[v]:
            rank[v] = min(rank[w] for w in after[v]) - 1
    lowest = min(rank, default=0)
    return [r - lowest for r in rank]


def _main(inner: Sequence[int], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> int | None:
    """Return the box without a producer from which the longest way leads down; of equals the first."""
    height = [0] * len(after)
    for v in reversed(inner):
        height[v] = max((height[w] + 1 for w in after[v]), default=0)
    return max((v for v in inner if not before[v]), key=height.__getitem__, default=None)
