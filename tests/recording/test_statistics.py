"""The numbers of a tensor are those that a plain computation in float64 finds, by every way of measuring."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backsight.recording.statistics import Measured, measure, native
from backsight.recording.statistics.measured import Found
from backsight.recording.statistics.source import NATIVE
from backsight.runs import BINS, LOWEST_EXPONENT

LEVELS = native.kernel.levels() if native.kernel else ()
WAYS = (*LEVELS, "plain")
FLOATS = [dtype for dtype in NATIVE if dtype.is_floating_point]
SPECIAL = [
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    1.0,
    -1.0,
    65504.0,
    6e-8,
    1e-45,
    1e-30,
    1e30,
    3.4e38,
    5e-324,
    1.7e308,
]


@pytest.fixture(params=WAYS)
def way(request):
    """One of the ways of measuring: the kernel at a level of the processor, or PyTorch's operations."""
    with by(request.param):
        yield request.param


class by:
    """Measure in one way from now on, and as before afterwards."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __enter__(self):
        self.kernel, self.level = native.kernel, native.kernel and native.kernel.level()
        native.available.cache_clear()
        if self.way == "plain":
            native.kernel = None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                native.available()
        else:
            native.kernel.use(self.way)

    def __exit__(self, *error):
        native.kernel = self.kernel
        native.available.cache_clear()
        if self.kernel:
            self.kernel.use(self.level)


def reference(x: torch.Tensor) -> dict[str, float]:
    """The statistics of a real tensor, slowly, in float64."""
    x = x.detach().reshape(-1).to(torch.float64)
    kept = x[x.isfinite()].numpy()
    scale = np.abs(kept).max(initial=0) or 1.0
    with np.errstate(over="ignore"):
        mean = (kept / scale).mean() * scale if len(kept) else math.nan
        m2 = np.square((kept - mean) / scale).sum() * scale * scale if len(kept) else 0.0
    return {
        "count": x.numel(),
        "mean": mean,
        "m2": m2,
        "min": kept.min() + 0.0 if len(kept) else math.nan,
        "max": kept.max() + 0.0 if len(kept) else math.nan,
        "zeros": int((x == 0).sum()),
        "nans": int(x.isnan().sum()),
        "infs": int(x.isinf().sum()),
    }


def magnitudes(x: torch.Tensor) -> np.ndarray:
    """The log2 histogram of all elements, slowly."""
    x = x.detach().reshape(-1).to(torch.float64)
    x = x[x.isfinite() & (x != 0)]
    exponents = [math.frexp(value)[1] - 1 for value in x.tolist()]
    return np.bincount([min(max(e - LOWEST_EXPONENT, 0), BINS - 1) for e in exponents], minlength=BINS)


def check(measured: Measured, tensors: Sequence[torch.Tensor], rel: float = 1e-5) -> None:
    """Compare with the reference: counts and bounds exactly, mean and m2 as far as single precision goes."""
    assert not measured.skipped
    for row, x in zip(measured.rows, tensors, strict=True):
        expected = reference(x)
        for name in ("count", "zeros", "nans", "infs", "min", "max"):
            np.testing.assert_equal(row[name], expected[name], err_msg=name)
        n = expected["count"] - expected["nans"] - expected["infs"]
        largest = max(abs(expected["min"]), abs(expected["max"])) if n else 0.0
        spread = math.sqrt(expected["m2"] / n) if n else 0.0
        slack = rel * min(spread, largest) + 1e-14 * largest
        np.testing.assert_allclose(row["mean"], expected["mean"], rtol=1e-12, atol=slack)
        if largest < 1e150:
            np.testing.assert_allclose(row["m2"], expected["m2"], rtol=rel, atol=n * (1e-14 * largest) ** 2)
        else:
            assert row["m2"] >= 0  # the square of a rounding error is more than a double holds


@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_every_type_at_every_length(way, dtype):
    for count in (0, 1, 15, 512, 1025, 70_001):
        torch.manual_seed(count)
        x = (torch.randn(count) * 20).to(dtype) if dtype != torch.bool else torch.rand(count) < 0.3
        check(measure([x]), [x])


@settings(deadline=None, max_examples=60)
@given(
    values=st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats(allow_nan=True, allow_infinity=True)), max_size=1100),
    dtype=st.sampled_from(FLOATS),
    repeats=st.integers(1, 3),
)
@pytest.mark.parametrize("way", WAYS)
def test_special_values_are_counted_and_left_out(way, values, dtype, repeats):
    x = torch.tensor(values, dtype=torch.float64).to(dtype).repeat(repeats)
    with by(way):
        measured = measure([x])
    check(measured, [x])
    np.testing.assert_array_equal(measured.histograms[0], magnitudes(x))
    np.testing.assert_array_equal(measured.negatives[0], magnitudes(x[x < 0]))
    assert measured.sampled[0] == x.numel()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("offset", [1e6, -1e6, 3e4])
@pytest.mark.parametrize("count", [300, 200_000])
def test_a_large_offset_costs_no_digits_of_the_spread(way, dtype, offset, count):
    torch.manual_seed(1)
    x = (torch.randn(count, dtype=torch.float64) + offset).to(dtype)
    measured = measure([x]).rows[0]
    expected = reference(x)
    assert math.sqrt(measured["m2"] / count) == pytest.approx(math.sqrt(expected["m2"] / count), rel=1e-4)
    assert measured["mean"] == pytest.approx(expected["mean"], rel=1e-12)


@pytest.mark.parametrize(
    "program",
    [
        lambda: torch.arange(100_000.0),
        lambda: torch.cat([torch.full((5000,), 1e6), torch.randn(5000)]),
        lambda: torch.cat([torch.randn(5000) * 1e-20, torch.randn(5000) * 1e20]),
        lambda: torch.randn(5000) * 1e-25,
        lambda: torch.randn(5000).square() * 1e-13,
        lambda: torch.cat([torch.rand(1500) * 4e-32, torch.rand(1500) * 6e-32, torch.rand(1500) * 1e-40]),
        lambda: torch.randn(5000, dtype=torch.float64) * 1e-120,
        lambda: torch.where(torch.arange(9000) % 512 == 0, 1e4, torch.randn(9000)),
        lambda: torch.where(torch.rand(9000) < 0.5, -torch.inf, torch.randn(9000)),
        lambda: torch.full((3000,), 0.1),
        lambda: torch.zeros(3000),
        lambda: torch.tensor([1.7e308, -1.7e308, 1.6e308], dtype=torch.float64).repeat(700),
        lambda: torch.full((2000,), torch.nan),
        lambda: torch.tensor([2**62 + 1, -(2**62), 7]).repeat(600),
    ],
    ids=range(14),
)
def test_drift_scale_and_outliers_do_no_harm(way, program):
    torch.manual_seed(2)
    x = program()
    check(measure([x]), [x])


@pytest.mark.parametrize("value", [0.1, -1e4, 1e-6, 12345.678])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_constant_has_no_spread_at_all(way, value, dtype):
    x = torch.full((200_001,), value).to(dtype)
    rows = measure([x]).rows
    assert rows["m2"] == 0
    assert rows["mean"] == x[0].double().item() == rows["min"] == rows["max"]


def test_large_tensors_are_sampled_evenly(way):
    torch.manual_seed(3)
    x = torch.randn(300_001)
    measured = measure([x])
    looked_at = torch.cat([piece[:512] for piece in x.split(8192)])
    assert measured.sampled[0] == looked_at.numel()
    np.testing.assert_array_equal(measured.histograms[0], magnitudes(looked_at))
    np.testing.assert_array_equal(measured.negatives[0], magnitudes(looked_at[looked_at < 0]))


@settings(deadline=None, max_examples=60)
@given(values=st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats()), max_size=1100), dtype=st.sampled_from(NATIVE))
@pytest.mark.parametrize("way", WAYS)
def test_turned_around_the_positive_numbers_are_the_negative_ones(way, values, dtype):
    x = torch.tensor(values, dtype=torch.float64).nan_to_num(3.0, 1e4, -1e4).clamp(-100, 100).to(dtype)
    x = x.float() if dtype in (torch.bool, torch.uint8) else x  # of these there is no negative number to turn to
    with by(way):
        there, back = measure([x]), measure([-x.double()])
    np.testing.assert_array_equal(there.histograms, back.histograms)
    np.testing.assert_array_equal(there.negatives + back.negatives, there.histograms)


def test_without_histogram_the_numbers_are_the_same(way):
    x = torch.randn(100_000)
    bare, full = measure([x], histogram=False), measure([x])
    assert bare.histograms is None
    assert bare.negatives is None
    assert bare.sampled is None
    np.testing.assert_array_equal(bare.rows, full.rows)


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=6),
    scale=st.sampled_from([1e-20, 1.0, 1e15]),
    seed=st.integers(0, 99),
)
def test_rows_of_parts_merge_to_the_row_of_the_whole(sizes, scale, seed):
    from backsight.recording.statistics.measured import joined

    x = torch.randn(sum(sizes), generator=torch.Generator().manual_seed(seed)) * scale
    parts = measure(x.split(sizes))
    numbers = np.array([list(row) for row in parts.rows.tolist()])
    whole = np.array([joined(numbers)], parts.rows.dtype)
    check(Measured(Found(whole), {}), [x])
    if x.numel():
        np.testing.assert_array_equal(parts.histograms.sum(0), measure([x]).histograms[0])
        np.testing.assert_array_equal(parts.negatives.sum(0), measure([x]).negatives[0])


def test_a_list_is_measured_like_its_tensors_one_by_one(way):
    torch.manual_seed(4)
    tensors = [torch.randn(n).to(dtype) for n in (0, 3, 700, 140_000) for dtype in FLOATS]
    together, alone = measure(tensors), [measure([x]) for x in tensors]
    assert together.rows.tobytes() == b"".join(one.rows.tobytes() for one in alone)
    np.testing.assert_array_equal(together.histograms, np.concatenate([one.histograms for one in alone]))
    np.testing.assert_array_equal(together.negatives, np.concatenate([one.negatives for one in alone]))


def test_nothing_is_measured_of_an_empty_list(way):
    measured = measure([])
    assert len(measured.rows) == 0
    assert measured.histograms.shape == (0, BINS)
    assert measured.skipped == {}


def test_without_the_kernel_it_says_so_once(monkeypatch):
    monkeypatch.setattr(native, "kernel", None)
    native.available.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="installed without its C kernel") as caught:
            measure([torch.ones(3)])
            measure([torch.ones(3)])
        assert len(caught) == 1
    finally:
        native.available.cache_clear()
