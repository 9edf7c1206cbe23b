"""Rows in the order of their keys, and where the keys change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backsight.runs.schema import Columns, chosen, rows_in


def ordered(rows: Columns, keys: Sequence[str]) -> Columns:
    """Return the rows sorted by the keys; equal ones stay in their order."""
    if rows_in(rows) < 2 or _in_order(rows, keys):
        return rows
    return chosen(rows, np.lexsort([rows[key] for key in reversed(keys)]))


def begins(rows: Columns, keys: Sequence[str]) -> NDArray[np.bool_]:
    """Return for each of the sorted rows whether it is the first with its keys."""
    changes = np.zeros(max(rows_in(rows) - 1, 0), bool)
    for key in keys:
        changes |= rows[key][1:] != rows[key][:-1]
    return np.append(True, changes) if rows_in(rows) else changes


def newest(rows: Columns, keys: Sequence[str]) -> Columns:
    """Return the rows sorted by the keys; of those with equal keys, the last."""
    rows = ordered(rows, keys)
    first = begins(rows, keys)
    return rows if first.all() else chosen(rows, np.append(first[1:], True))


def _in_order(rows: Columns, keys: Sequence[str]) -> bool:
    equal = np.ones(rows_in(rows) - 1, bool)
    above = ~equal
    for key in keys:
        column = rows[key]
        above |= equal & (column[1:] > column[:-1])
        equal &= column[1:] == column[:-1]
        if above.all():
            return True
    return bool((above | equal).all())
