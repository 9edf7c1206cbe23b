"""What is too long to be shown at once is cut into parts, where the fewest results are carried over the cut."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backsight.drawing.groups import Group, Item, end_row, first_row, inner_groups


def cut_into_parts(top: Group, inputs: Sequence[Sequence[int]], most: int) -> None:
    """Cut every group of more than `most` items into parts, and these again, until none holds more.

    Args:
        top: the tree of groups, changed in place.
        inputs: for each row, the rows that it consumes.
        most: how many items a group may hold.
    """
    long = [group for group in inner_groups(top) if len(group.items) > most]
    if not long:
        return
    carried = _carried(inputs)
    for group in long:
        while len(group.items) > most:
            group.items = [_part(group, items) for items in _slices(group.items, most, carried)]


def _carried(inputs: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return how many results are still needed above each row: made before it, and consumed by it or later."""
    last = np.arange(len(inputs))
    for row, sources in enumerate(inputs):
        for j in sources:
            last[j] = row
    ended = np.cumsum(np.bincount(last, minlength=len(inputs)))
    carried: NDArray[np.int64] = np.arange(len(inputs) + 1) - np.concatenate([[0], ended])
    return carried


def _slices(items: Sequence[Item], most: int, carried: NDArray[np.int64]) -> list[Sequence[Item]]:
    """Return stretches of about equal length, each of at most `most` items."""
    count = -(-len(items) * 4 // (3 * most))  # three quarters full, so that the cut can be chosen
    size = len(items) / count
    play = int((most - size) / 2)
    above = np.array([carried[first_row(item)] for item in items])
    cuts = [0]
    for k in range(1, count):
        middle = round(k * size)
        low, high = max(cuts[-1] + 1, middle - play), min(len(items) - 1, middle + play, cuts[-1] + most)
        distance = np.abs(np.arange(low, high + 1) - middle)
        cuts.append(low + int(np.lexsort((distance, above[low : high + 1]))[0]))
    cuts.append(len(items))
    return [items[a:b] for a, b in itertools.pairwise(cuts)]


def _part(parent: Group, items: Sequence[Item]) -> Item:
    if len(items) == 1:
        return items[0]
    part = Group("part", parent.path, first_row(items[0]), parent, stop=end_row(items[-1]), items=list(items))
    for item in items:
        if isinstance(item, Group):
            item.parent = part
    return part
