"""Every column comes back bit for bit, in the narrowest encoding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from backsight.runs import BINS, columns

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)


def through(column: np.ndarray, kind: str) -> tuple[np.ndarray, int]:
    code, data = columns.encode(column)
    found, used = columns.decode(code, kind, np.frombuffer(data + b"more", "u1")[None], len(column))
    assert used == len(data)
    return found, code


@given(st.lists(INTEGERS, min_size=1, max_size=50))
def test_integers(values: list[int]) -> None:
    assert through(np.array(values, "<i8"), "<i8")[0].tolist() == values


@given(st.integers(-(1 << 40), 1 << 40), st.integers(-1000, 1000), st.integers(1, 50))
def test_integers_in_even_steps_take_no_bytes_a_row(first: int, stride: int, count: int) -> None:
    values = first + stride * np.arange(count)
    found, code = through(values, "<i8")
    assert (found == values).all()
    assert code in (columns.ZERO, columns.CONSTANT, columns.LINEAR)


@given(arrays("<f8", st.integers(1, 50), elements=st.floats(width=64)))
def test_floats_keep_every_bit(values: np.ndarray) -> None:
    assert through(values, "<f8")[0].tobytes() == values.tobytes()


@given(arrays("<u8", st.integers(1, 20)))
def test_floats_of_any_bits_even_nan_with_a_payload(bits: np.ndarray) -> None:
    assert through(bits.view("<f8"), "<f8")[0].tobytes() == bits.tobytes()


@given(arrays("<f4", st.integers(2, 50), elements=st.floats(-10, 10, width=32)))
def test_single_precision_takes_four_bytes(values: np.ndarray) -> None:
    found, code = through(values.astype("<f8"), "<f8")
    assert (found == values).all()
    assert code in (columns.FLOAT4, columns.CONSTANT, columns.ZERO)


def test_minus_zero_is_not_zero() -> None:
    found, _ = through(np.array([-0.0, -0.0]), "<f8")
    assert np.signbit(found).all()


@given(arrays("<u4", st.tuples(st.integers(1, 8), st.just(BINS)), elements=st.integers(0, (1 << 32) - 1)))
def test_histograms(counts: np.ndarray) -> None:
    assert (through(counts, "histogram")[0] == counts).all()


def test_columns_of_several_blocks_come_out_one_after_the_other() -> None:
    first, second = np.array([3, 9, 4]), np.array([70, 7, 71])
    (code, one), (same, two) = columns.encode(first), columns.encode(second)
    assert code == same
    found, _ = columns.decode(code, "<i8", np.frombuffer(one + two, "u1").reshape(2, -1), 3)
    assert found.tolist() == [3, 9, 4, 70, 7, 71]


@pytest.mark.parametrize("code", range(12))
@pytest.mark.parametrize("kind", ["<i8", "<f8", "histogram"])
def test_too_few_bytes_are_an_error_and_no_numbers(code: int, kind: str) -> None:
    if code == columns.ZERO and kind != "histogram":
        return  # nothing is needed
    with pytest.raises(columns.NotAColumn):
        columns.decode(code, kind, np.zeros((1, 3), "u1"), 4)
