"""Fingerprints: the C kernel and NumPy find the same bits, whatever dtype, strides, processor and threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backsight.recording.statistics import imprints, native, readable
from backsight.recording.statistics.source import NATIVE
from backsight.traces.fingerprints import fingerprints, print_of
from backsight.traces.records import PRINT

needs_kernel = pytest.mark.skipif(native.kernel is None, reason="the kernel is not built here")
LEVELS = native.kernel.levels() if native.kernel is not None else ()
SIGNS = 65_536


@pytest.fixture(autouse=True)
def same_level():
    level = native.kernel.level() if native.kernel is not None else None
    yield
    if level is not None:
        native.kernel.use(level)


def by_kernel(tensor: torch.Tensor, level: str | None = None) -> np.void:
    native.kernel.use(level or LEVELS[-1])
    assert readable(tensor)
    return np.frombuffer(imprints([tensor]), PRINT)[0]


def by_numpy(tensor: torch.Tensor) -> np.void:
    return print_of(tensor.detach().contiguous())[()]


def assert_same(found: np.void, expected: np.void) -> None:
    assert int(found["hash"]) == int(expected["hash"])
    np.testing.assert_array_equal(found["sketch"], expected["sketch"])
    for name in ("count", "zeros", "nans", "infs", "min", "max"):
        np.testing.assert_equal(found["stats"][name], expected["stats"][name])
    finite = max(1, int(expected["stats"]["count"]))
    with np.errstate(all="ignore"):
        size = np.sqrt(expected["stats"]["m2"] / finite) + abs(expected["stats"]["mean"])
        np.testing.assert_allclose(found["stats"]["mean"], expected["stats"]["mean"], rtol=1e-5, atol=1e-5 * size)
        np.testing.assert_allclose(found["stats"]["m2"], expected["stats"]["m2"], rtol=1e-4, atol=1e-9 * size**2)


def of_bits(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Any bits there are: NaN, infinities, -0.0 and denormal numbers among them; of bool, 0 and 1."""
    drawn = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=drawn).bool()
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (count * size,), generator=drawn, dtype=torch.uint8).view(dtype)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Tensors of every dtype and any strides: permuted, sliced, expanded, of no or one element."""
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 16, 17, 33]), max_size=4))
    count = int(np.prod(shape, dtype=int))
    tensor = of_bits(draw(st.sampled_from(NATIVE)), count + 3, draw(st.integers(0, 1000)))
    tensor = tensor[draw(st.integers(0, 3)) :][:count].reshape(shape)
    tensor = tensor.permute(draw(st.permutations(range(len(shape)))))
    for dimension in range(tensor.dim()):
        step = draw(st.sampled_from([1, 1, 1, 2, 3]))
        tensor = tensor[(slice(None),) * dimension + (slice(None, None, step),)]
    if draw(st.integers(0, 4)) == 0:
        tensor = tensor.unsqueeze(0).expand(draw(st.integers(1, 20)), *tensor.shape)
    return tensor


@needs_kernel
@settings(max_examples=300, deadline=None)
@given(tensors(), st.sampled_from(LEVELS or [""]))
def test_the_kernel_and_numpy_find_the_same_bits(tensor, level):
    assert_same(by_kernel(tensor, level), by_numpy(tensor))


@needs_kernel
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("count", [SIGNS - 1, SIGNS, SIGNS + 1, 5 * SIGNS + 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_what_is_longer_than_the_signs_is_the_same(dtype, count, level):
    tensor = of_bits(dtype, count, 1) if not dtype.is_floating_point else torch.randn(count).to(dtype)
    assert_same(by_kernel(tensor, level), by_numpy(tensor))


@needs_kernel
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300, -1e38])
def test_what_is_not_finite_is_left_out_of_the_projection(value):
    for dtype in (torch.float32, torch.float64, torch.float16):
        tensor = torch.randn(2 * SIGNS + 5).to(dtype)
        tensor[::1000] = torch.tensor(value, dtype=torch.float64).to(dtype)
        assert_same(by_kernel(tensor), by_numpy(tensor))


@needs_kernel
def test_a_sum_that_overflows_is_the_same():
    tensor = torch.full((3000,), 1.7e308, dtype=torch.float64)
    assert_same(by_kernel(tensor), by_numpy(tensor))


@needs_kernel
def test_large_transposed_tensors_are_the_same_on_any_threads():
    whole = torch.randn(700, 900)
    views = [whole.t(), whole.view(70, 10, 900).transpose(0, 1), whole[:, ::2], whole.t()[3:, 5:], whole.view(-1)[1:]]
    views.append(torch.randn(2100, 1000).t())
    expected = {id(view): by_numpy(view) for view in views}
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            many = np.frombuffer(imprints(views * 3), PRINT)  # large enough for several threads
            for row, view in zip(many, views * 3, strict=True):
                assert_same(row, expected[id(view)])
    finally:
        torch.set_num_threads(threads)


@needs_kernel
def test_many_tensors_at_once_are_what_each_is_alone():
    many = [torch.randn(n) for n in (0, 1, 1000, 200_000, 3)] + [torch.randn(30, 40).t(), torch.arange(7)]
    found = np.frombuffer(imprints(many), PRINT)
    for row, tensor in zip(found, many, strict=True):
        assert row.tobytes() == by_kernel(tensor).tobytes()


@needs_kernel
def test_nonsense_is_refused():
    kernel = native.kernel
    x = torch.ones(6)
    for wrong in (
        ([x.data_ptr()], [6], [0], [(2, 2, 2, 1)], 1),
        ([x.data_ptr()], [-1], [0], [None], 1),
        ([x.data_ptr()], [6], [99], [None], 1),
        ([0], [6], [0], [None], 1),
    ):
        with pytest.raises(ValueError, match=r"no such address, count or kind|the sizes do not make the count"):
            kernel.imprint(*wrong)
    for wrong in (
        ([1], [6], [0], [], 1),
        ([1], [6], [0]),
        ([x.data_ptr()], [6], [0], [(1,) * 200], 1),
        (1, 2, 3, 4, 5),
    ):
        with pytest.raises(TypeError):
            kernel.imprint(*wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(5, 4, dtype=torch.complex64).t().conj(),
        lambda: torch.randn(5, 4).to(torch.float8_e4m3fn).t(),
        lambda: torch.randn(6, dtype=torch.complex64).imag,
        lambda: torch.arange(9).to(torch.uint16)[::2],
        lambda: torch.frombuffer(bytearray(range(17)), dtype=torch.float32, offset=1, count=4),
    ],
    ids=["conjugate", "float8", "negative", "uint16", "unaligned"],
)
def test_other_tensors_are_read_as_well(make):
    tensor = make()
    rows, plain = fingerprints([tensor, torch.ones(3)])
    copied = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    expected = print_of(torch.view_as_real(copied) if copied.is_complex() else copied)[()]
    assert plain[0] is not None and rows[0]["hash"] == expected["hash"]
    np.testing.assert_array_equal(rows[0]["sketch"], expected["sketch"])
    assert rows[0]["stats"]["count"] == expected["stats"]["count"]


def test_what_has_no_memory_is_not_read():
    released = torch.ones(100, 3)
    turned = released.t()
    released.untyped_storage().resize_(0)
    large = torch.sparse_coo_tensor(
        torch.zeros(2, 0, dtype=torch.long), torch.zeros(0), (1 << 12, 1 << 12), check_invariants=False
    )
    rows, plain = fingerprints([released, torch.ones(2, device="meta"), turned, large])
    assert plain == [None] * 4 and not rows["hash"].any()


@needs_kernel
@pytest.mark.filterwarnings("ignore:backsight was installed without its C kernel")
def test_without_the_kernel_the_numbers_are_the_same(monkeypatch):
    many = [torch.randn(9, 7).t(), torch.arange(5), torch.randn(3).to(torch.bfloat16), torch.randn(2) > 0]
    expected, _ = fingerprints(many)
    monkeypatch.setattr(native, "kernel", None)
    native.available.cache_clear()
    found, _ = fingerprints(many)
    monkeypatch.undo()
    native.available.cache_clear()
    np.testing.assert_array_equal(found["hash"], expected["hash"])
    np.testing.assert_array_equal(found["sketch"], expected["sketch"])
