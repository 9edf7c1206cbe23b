"""Numbers, sizes, names and lines of bars as a table shows them."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backsight.tables import sparkline as lines
from backsight.tables import text
from backsight.tables.sparkline import BARS, GAP, is_flattened, logarithms, sparkline

FLOATS = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize("module", [text, lines])
def test_the_examples_in_the_docstrings_are_true(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]  # a module, as a parameter


@given(st.floats(-1e300, 1e300))
def test_a_number_is_short_and_close_to_what_it_stands_for(value: float) -> None:
    said = text.number(value)
    assert len(said) <= 10
    assert float(said) == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize(
    ("part", "said"),
    [(0.0, "0 %"), (0.0001, "<1 %"), (0.5, "50 %"), (0.9999, "99 %"), (1.0, "100 %"), (math.nan, "–")],
)
def test_only_none_and_all_are_said_to_be(part: float, said: str) -> None:
    assert text.fraction(part) == said


@given(st.lists(FLOATS, max_size=200), st.integers(1, 60))
def test_a_line_is_as_long_as_there_is_room_or_values(values: list[float], width: int) -> None:
    said = sparkline(values, width)
    assert len(said) == min(width, len(values)) and set(said) <= {*BARS, GAP}


@given(st.lists(FLOATS, min_size=1, max_size=60))
def test_what_is_not_finite_is_a_gap_and_the_extremes_stand_out(values: list[float]) -> None:
    said = sparkline(values, len(values))
    assert [bar == GAP for bar in said] == [not math.isfinite(value) for value in values]
    finite = [value for value in values if math.isfinite(value)]
    if finite and max(finite) - min(finite) > 1e-6 * max(map(abs, finite)):
        assert said[values.index(max(finite))] == BARS[-1] and said[values.index(min(finite))] == BARS[0]


def test_a_peak_is_not_averaged_away() -> None:
    assert BARS[-1] in sparkline([1.0] * 500 + [9.0] + [1.0] * 500, 10)


def test_a_spike_flattens_no_line_on_a_logarithmic_scale() -> None:
    values = [0.0, *(2.0 / (k + 1) for k in range(6)), 1e6, 0.1]
    assert is_flattened(values) and not is_flattened(values[:-2])
    assert len(set(sparkline(values, 9))) == 2 and len(set(sparkline(logarithms(values), 9))) > 2


def test_what_does_not_move_is_flat_and_zero_is_low() -> None:
    assert sparkline([3.0] * 8, 4) == BARS[3] * 4
    assert sparkline([0.0] * 8, 4) == BARS[0] * 4
