"""How hot a box is: five classes, of the share of all saved bytes or of the values given."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backsight.drawing.look import Heat, Look
from backsight.tape import Graph
from backsight.tape.queries import locate
from backsight.tape.rows import Rows
from backsight.text import size

SHARES = (0.0, 0.01, 0.05, 0.2)
"""A box with more than this share of all saved bytes is in the class after it."""


@dataclass(frozen=True, eq=False)
class Warmth:
    """What boxes are coloured by: a number a row, how it is put into words, and the bounds of the classes above 0.

    Of a group the numbers are added up if they are bytes, otherwise the largest one counts.
    """

    name: str
    values: NDArray[np.float64]
    bounds: tuple[float, ...]
    adds_up: bool
    unit: str = ""

    def level(self, value: float) -> int:
        """Return the class of a value, 0 to 4."""
        return sum(value > bound for bound in self.bounds)

    def words(self, value: float, times: int = 1) -> str:
        """Return a value as the corner of a box shows it."""
        if not value or math.isnan(value):
            return "NaN" if math.isnan(value) else ""
        if self.adds_up:
            return size(round(value)) + (f" × {times:,}" if times > 1 else "")
        return f"{value:.3g}{' ' * bool(self.unit)}{self.unit}"

    @property
    def scale(self) -> tuple[str, tuple[str, ...]]:
        """The name, and what each class above 0 stands for."""
        if not self.bounds:
            return "", ()
        if self.adds_up:
            ends = [f"{share:.0%}" for share in SHARES[1:]]
        else:
            ends = [f"{bound:.2g}" for bound in self.bounds[1:]]
        return self.name, (*(f"≤ {end}" for end in ends), f"> {ends[-1]}")


def warmth(graph: Graph, rows: Rows, look: Look) -> Warmth:
    """Return what the boxes of `rows` are coloured by.

    Raises:
        NotInGraph: if the heat is given for a place that is not in the graph.
    """
    if look.heat == "saved":
        total = sum(rows.saved)
        bounds = tuple(share * total for share in SHARES) if total else ()
        return Warmth(f"of {size(total)} saved", np.array(rows.saved, np.float64), bounds, adds_up=True)
    values = np.zeros(len(rows))
    if isinstance(look.heat, Heat):
        row_of = {node: row for row, node in enumerate(rows.node)}
        for place, value in look.heat.values.items():
            row = row_of.get(locate(graph, place))
            if row is not None:
                values[row] = value
        return Warmth(look.heat.name, values, _bounds(values), adds_up=False, unit=look.heat.unit)
    return Warmth("", values, (), adds_up=False)


def _bounds(values: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the bounds of four classes above 0, equal steps of the logarithm between least and largest."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not len(positive):
        return ()
    low, high = float(positive.min()), float(positive.max())
    if low == high:  # one value is the hottest, and the classes below it are empty
        low /= 10
    return (0.0, *(low * (high / low) ** (k / 4) for k in (1, 2, 3)))
