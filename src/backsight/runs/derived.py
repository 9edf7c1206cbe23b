"""The statistics that a row does not hold but tells: each a small function, registered by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs.schema import Columns

Numbers = NDArray[Any]
Derivation = Callable[[Columns], Numbers]

DERIVED: dict[str, Derivation] = {}
"""Every statistic that can be read, in the order in which a table shows them."""

ALIASES = {"norm": "l2"}
"""Other names of statistics; a column is called as it was asked for."""


def statistic(name: str) -> Callable[[Derivation], Derivation]:
    """Register a function from rows to the values of the statistic of this name."""

    def register(function: Derivation) -> Derivation:
        DERIVED[name] = function
        return function

    return register


def derivation(name: str) -> Derivation | None:
    """Return how a statistic is derived, by any of its names; None if there is no such statistic."""
    return DERIVED.get(ALIASES.get(name, name))


def finite(rows: Columns) -> NDArray[np.int64]:
    """How many elements are neither NaN nor infinite."""
    found: NDArray[np.int64] = rows["count"] - rows["nans"] - rows["infs"]
    return found


def where_any(rows: Columns, name: str) -> Numbers:
    """A column that is about the finite elements, NaN where there are none."""
    return np.where(finite(rows) > 0, rows[name], np.nan)


@statistic("count")
def count(rows: Columns) -> Numbers:
    """All elements."""
    return rows["count"]


@statistic("mean")
def mean(rows: Columns) -> Numbers:
    """Mean of the finite elements."""
    return where_any(rows, "mean")


@statistic("std")
def std(rows: Columns) -> Numbers:
    """Standard deviation of the finite elements, by n - 1 as `torch.std`; NaN for one element."""
    n = finite(rows)
    variance = np.where(n > 1, rows["m2"], np.nan) / np.maximum(n - 1, 1)
    return np.sqrt(variance)


@statistic("min")
def least(rows: Columns) -> Numbers:
    """Smallest finite element."""
    return where_any(rows, "min")


@statistic("max")
def greatest(rows: Columns) -> Numbers:
    """Largest finite element."""
    return where_any(rows, "max")


@statistic("absmax")
def absmax(rows: Columns) -> Numbers:
    """Largest magnitude of a finite element."""
    return np.maximum(np.abs(where_any(rows, "min")), np.abs(where_any(rows, "max")))


@statistic("l2")
def l2(rows: Columns) -> Numbers:
    """Euclidean norm of the finite elements; also called "norm"."""
    scale = np.sqrt(np.maximum(finite(rows), 0))
    with np.errstate(over="ignore"):  # of doubles near their limit
        norm: Numbers = np.hypot(np.sqrt(where_any(rows, "m2")), scale * where_any(rows, "mean"))
    return norm


@statistic("m2")
def m2(rows: Columns) -> Numbers:
    """Sum of the squared distances of the finite elements from their mean: what merges exactly."""
    return where_any(rows, "m2")


@statistic("zeros")
def zeros(rows: Columns) -> Numbers:
    """Elements that are zero."""
    return rows["zeros"]


@statistic("zero_fraction")
def zero_fraction(rows: Columns) -> Numbers:
    """Part of all elements that is zero; NaN for an empty tensor."""
    return np.where(rows["count"] > 0, rows["zeros"], np.nan) / np.maximum(rows["count"], 1)


@statistic("nans")
def nans(rows: Columns) -> Numbers:
    """Elements that are NaN."""
    return rows["nans"]


@statistic("infs")
def infs(rows: Columns) -> Numbers:
    """Elements that are infinite, of either sign."""
    return rows["infs"]


@statistic("nonfinite")
def nonfinite(rows: Columns) -> Numbers:
    """Elements that are NaN or infinite."""
    return rows["nans"] + rows["infs"]
