"""Lanes: which results are still needed beside each row, as `git log --graph` draws branches."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class Lane(NamedTuple):
    """What one row draws. Lane `k` is bit `k` of the masks.

    `here` is the lane of the row's own result, `joins` are the lanes that it reads and `ends` those of them that nobody
    reads later. `before` are the lanes open above the row and `after` those open below it.
    """

    here: int
    joins: int
    ends: int
    before: int
    after: int


def lanes(inputs: Sequence[Sequence[int]], limit: int = 24) -> list[Lane]:
    """Give each row's result a lane, from the row to its last consumer: one that ends there, else the leftmost free.

    Lane `limit` stands for all from there on, so that the masks stay small however wide the graph is.

    ```python
    lanes([(), (0,), (0, 1)])   # a fork and a join:  ●  then  ├─●  then  ●─┘
    ```

    Args:
        inputs: for each row, the earlier rows whose results it consumes.
        limit: how many lanes are told apart.
    """
    last = [-1] * len(inputs)
    for i, sources in enumerate(inputs):
        for j in sources:
            last[j] = i
    lane_of = [0] * len(inputs)
    free: list[int] = []
    used = opened = beyond = 0
    out = []
    for i, sources in enumerate(inputs):
        before, joins, ends = opened, 0, 0
        freed = []
        for j in set(sources) if len(sources) > 1 else sources:
            k = lane_of[j]
            joins |= 1 << min(k, limit)
            if last[j] == i:
                freed.append(k)
        beyond -= sum(k >= limit for k in freed)
        for k in freed:
            ends |= 1 << k if k < limit else 0 if beyond else 1 << limit
        if freed:  # a lane that ends here is taken before an empty one further left: a line goes straight on
            here = min(freed)
            for k in freed:
                if k != here:
                    heappush(free, k)
        elif free:
            here = heappop(free)
        else:
            here, used = used, used + 1
        opened = before & ~ends
        lane_of[i] = here
        if last[i] >= 0:
            opened |= 1 << min(here, limit)
            beyond += here >= limit
        else:
            heappush(free, here)
        out.append(Lane(min(here, limit), joins, ends, before, opened))
    return out


def width(drawn: Sequence[Lane]) -> int:
    """Return how many lanes are in use at the widest row."""
    return max(((lane.before | lane.after | 1 << lane.here).bit_length() for lane in set(drawn)), default=0)


def draw(lane: Lane, mark: str = "●", limit: int = 24) -> list[str]:
    """Return the cells of a row, two characters a lane: `["├─", "● "]`. What lies beyond the limit is an ellipsis."""
    here, joins, ends, before, _ = lane
    reach = joins | 1 << here
    low, high = (reach & -reach).bit_length() - 1, reach.bit_length() - 1
    cells = []
    for k in range(max(before.bit_length(), high + 1)):
        bit = 1 << k
        if k >= limit:
            glyph = "…"
        elif k == here:
            glyph = mark
        elif joins & bit:
            corner, side = "┘┤" if k > here else "└├"
            glyph = side if not ends & bit else corner if k in (low, high) else "┴"
        elif low < k < high:
            glyph = "┼" if before & bit else "─"
        else:
            glyph = "│" if before & bit else " "
        cells.append(glyph + ("─" if low <= k < high else " "))
    return cells


def through(lane: Lane, limit: int = 24) -> list[str]:
    """Return the cells of a line that stands below a row and belongs to none: the open lanes go on."""
    marks = ("…" if k >= limit else "│" if lane.after >> k & 1 else " " for k in range(lane.after.bit_length()))
    return [mark + " " for mark in marks]
