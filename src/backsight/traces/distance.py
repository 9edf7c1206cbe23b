"""How far apart two values are: by their bits, by the tensors where both were kept, or by their projections."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from backsight.traces.records import BUCKETS, Trace, Value

_MANTISSA = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7, "complex64": 23, "complex128": 52}
_EIGHT_BITS = {"float8_e4m3fn": 3, "float8_e4m3fnuz": 3, "float8_e5m2": 2, "float8_e5m2fnuz": 2}


@dataclass(frozen=True)
class Apart:
    """How far apart two values are.

    relative: the norm of the difference over the larger of the two norms; infinite where they cannot be compared.
    ulps: the largest difference of an element in units in the last place; None where the tensors were not kept.
    exact: whether it was measured, and not estimated from projections (which is right within a third or so).
    absolute: the norm of the difference.
    """

    relative: float
    ulps: float | None = None
    exact: bool = False
    absolute: float = 0.0

    @property
    def same(self) -> bool:
        return self.relative == 0


SAME = Apart(0.0, 0.0, True)
INCOMPARABLE = Apart(inf, absolute=inf)


def unit(dtype: str) -> float:
    """Return the distance from 1 to the next number of a dtype; 0 where numbers are exact."""
    mantissa = {**_MANTISSA, **_EIGHT_BITS}.get(dtype)
    return 0.0 if mantissa is None else 2.0**-mantissa


def norm(trace: Trace, value: Value) -> float:
    """Return the Euclidean norm of the finite elements."""
    if value.mark < 0:
        return 0.0
    row = trace.prints[value.mark]["stats"]
    finite = int(row["count"] - row["nans"] - row["infs"])
    mean = float(row["mean"])  # its square may be infinite, where `**` would raise
    return sqrt(max(0.0, float(row["m2"]) + finite * mean * mean)) if finite else 0.0


class Distances:
    """Distances between the values of two traces, each looked up once."""

    def __init__(self, a: Trace, b: Trace):
        self.a, self.b = a, b
        self._known: dict[tuple[int, int], Apart] = {}

    def __call__(self, of_a: int, of_b: int) -> Apart:
        """Return how far apart two values are, given by their numbers."""
        found = self._known.get((of_a, of_b))
        if found is None:
            found = self._known[of_a, of_b] = self._apart(self.a.values[of_a], self.b.values[of_b])
        return found

    def _apart(self, x: Value, y: Value) -> Apart:
        if x.mark < 0 or y.mark < 0:
            return SAME if x.mark == y.mark and x.shape == y.shape else INCOMPARABLE
        p, q = self.a.prints[x.mark], self.b.prints[y.mark]
        if p["stats"]["count"] != q["stats"]["count"]:
            return INCOMPARABLE
        if p["hash"] == q["hash"] and x.dtype == y.dtype:
            return SAME
        if any(p["stats"][name] != q["stats"][name] for name in ("nans", "infs")):
            return INCOMPARABLE
        whole = self.a.kept.get(x.mark), self.b.kept.get(y.mark)
        if whole[0] is not None and whole[1] is not None:
            return _measured(whole[0].ravel(), whole[1].ravel(), max(unit(x.dtype), unit(y.dtype)))
        size = max(norm(self.a, x), norm(self.b, y))
        apart = float(np.sqrt(np.square(p["sketch"] - q["sketch"]).sum()))
        if not size:
            return SAME
        # Other bits make other numbers, but for 0 and -0: a projection that does not show it has rounded it away.
        return Apart(max(apart / size, 1e-17), absolute=apart) if isfinite(apart) else INCOMPARABLE


def _measured(x: NDArray[np.generic], y: NDArray[np.generic], step: float) -> Apart:
    with np.errstate(all="ignore"):
        p, q = x.astype(np.float64), y.astype(np.float64)
        difference = np.where(p == q, 0.0, p - q)
        difference = difference[np.isfinite(difference)]
        size = max(float(np.linalg.norm(p[np.isfinite(p)])), float(np.linalg.norm(q[np.isfinite(q)])))
        if not difference.any():
            return SAME
        larger = np.maximum(np.abs(p), np.abs(q))
        spacing = np.exp2(np.floor(np.log2(np.where(larger > 0, larger, 1.0)))) * step if step else np.ones(p.shape)
        ulps = np.abs(np.where(p == q, 0.0, p - q)) / spacing
        ulps = ulps[np.isfinite(ulps)]
    absolute = float(np.linalg.norm(difference))
    relative = absolute / size if size and isfinite(absolute) else inf
    return Apart(relative, float(ulps.max(initial=0.0)), True, absolute)


def factor(a: Trace, b: Trace, x: Value, y: Value) -> float | None:
    """Return the number that y is a multiple of x by; None if it is none, or both are alike."""
    if x.mark < 0 or y.mark < 0:
        return None
    p, q = a.prints[x.mark]["sketch"], b.prints[y.mark]["sketch"]
    square = float(np.dot(p, p))
    if not square or not isfinite(square):
        return None
    ratio = float(np.dot(p, q)) / square
    rest = float(np.linalg.norm(q - ratio * p))
    alike = rest <= 1e-3 * float(np.linalg.norm(q)) and ratio and abs(ratio - 1) > 1e-3
    return ratio if alike and np.count_nonzero(p) > BUCKETS // 4 else None
