"""The Triton kernel finds what the other ways find: run in Triton's interpreter, not yet on a GPU.

That it compiles needs no GPU; that the compiled code is right, waits for nothing and is fast, only a GPU can show.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

from backsight.recording.page import Page, Slot
from backsight.recording.reading import skipped
from backsight.recording.statistics import measure, native, triton_launch

HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed: ITS KERNEL IS NOT TESTED")

INTERPRETED = """
import sys, warnings
sys.path.insert(0, {tests!r})
import numpy as np, torch
from hypothesis import given, settings, strategies as st
from backsight.recording.statistics import measure, native, plain, triton_launch
from test_statistics import FLOATS, SPECIAL, check, magnitudes

torch.set_num_threads(1)
native.kernel = None
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    native.available()
warnings.simplefilter("error", RuntimeWarning)
np.seterr(all="ignore")
triton_launch.DEVICES = ("cpu",)
"""


@pytest.fixture
def interpreted(in_a_process):
    """Run a program in which the tensors of the CPU are measured by the kernel, interpreted."""
    start = INTERPRETED.format(tests=str(Path(__file__).parent))

    def run_program(program):
        try:
            return in_a_process(start + program + "\nassert triton_launch.kernel()", TRITON_INTERPRET="1")
        except AssertionError as failure:
            if "only 0-dimensional arrays can be converted" in str(failure):  # which this Triton does, NumPy 2.4 not
                pytest.skip(f"the interpreter of Triton {version('triton')} does not run with NumPy {np.__version__}")
            raise

    return run_program


@pytest.fixture
def as_on_a_device(monkeypatch):
    """Tensors of the CPU are offered to Triton, as those of a GPU are."""
    monkeypatch.setattr(native, "available", lambda: False)
    monkeypatch.setattr(triton_launch, "DEVICES", ("cpu",))
    monkeypatch.setattr(triton_launch, "_FAILED", [])
    triton_launch.kernel.cache_clear()
    yield
    triton_launch.kernel.cache_clear()


@needs_triton
def test_every_type_at_every_length_in_one_list(interpreted):
    interpreted("""
tensors = [(torch.randn(n) * 20).to(d) for n in (0, 1, 15, 1025, 70_001) for d in FLOATS]
tensors += [torch.arange(10), torch.randn(6, 4).t(), torch.randn(6, 4)[:, 1], torch.full((1500,), 0.1)]
check(measure(tensors), tensors)
""")


@needs_triton
def test_a_large_offset_costs_no_digits_and_the_largest_numbers_do_not_overflow(interpreted):
    interpreted("""
largest = torch.tensor([1.7e308, -1.7e308, 1.7e308] * 1000, dtype=torch.float64)
offset, step = torch.randn(5000, dtype=torch.float64) + 1e8, torch.cat((torch.zeros(2000), torch.ones(2000) * 1e6))
tensors = [offset, step, largest]
check(measure(tensors), tensors)
""")


@needs_triton
def test_special_values_are_counted_and_left_out(interpreted):
    interpreted("""
@settings(deadline=None, max_examples=40, database=None, derandomize=True)
@given(st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats()), max_size=1100), st.sampled_from(FLOATS))
def same(values, dtype):
    x = torch.tensor(values, dtype=torch.float64).to(dtype)
    measured = measure([x])
    check(measured, [x])
    np.testing.assert_array_equal(measured.histograms[0], magnitudes(x))
    np.testing.assert_array_equal(measured.negatives[0], magnitudes(x[x < 0]))
    assert measured.sampled[0] == x.numel()

same()
""")


@needs_triton
def test_the_histogram_samples_the_same_numbers_and_runs_agree_to_the_bit(interpreted):
    interpreted("""
tensors = [torch.randn(n) for n in (65_536, 65_537, 200_000)]
measured, again = measure(tensors), measure(tensors)
assert measured.rows.tobytes() == again.rows.tobytes()
triton_launch.DEVICES = ()
expected = measure(tensors)
np.testing.assert_array_equal(measured.histograms, expected.histograms)
np.testing.assert_array_equal(measured.negatives, expected.negatives)
assert measured.sampled.tolist() == expected.sampled.tolist()
assert measure(tensors, histogram=False).histograms is None
""")


@needs_triton
def test_a_tensor_of_very_many_numbers_has_longer_chunks_and_not_more(interpreted):
    interpreted("""
triton_launch._CHUNK = plain.PERIOD
triton_launch.kernel().MOST_CHUNKS = 4
x = torch.randn(9 * plain.PERIOD + 5)
table, owners = triton_launch._table([x], 4)
assert len(owners) == 4
check(measure([x]), [x])
""")


@needs_triton
@pytest.mark.parametrize("histogram", [False, True])
def test_what_is_noted_one_by_one_is_measured_on_desks_in_its_order(interpreted, histogram):
    interpreted(
        """
from backsight.recording.page import Page, Slot
from backsight.recording.reading import joined, skipped
from backsight.recording.statistics import desk

desk.ROWS = 5  # so that desks fill up
x, long = torch.randn(40, 30), torch.randn(70_000)
given = [x, torch.arange(-5, 5), x, x.t(), long, torch.rand(9) < 0.5, torch.tensor(2.5), x, torch.randn(0)]
given += [torch.randn(6, 4)[:, 1], torch.ones(3).expand(5, 3), x, torch.randn(4).to_sparse(), long, long, x]
given += [(torch.randn(99) * 20).to(d) for d in (*FLOATS, torch.int8, torch.uint8, torch.int16, torch.int32)]
given.append(torch.tensor([np.nan, np.inf, -np.inf]))

def taken(tensors):
    page = Page(0, HISTOGRAM)
    for number, each in enumerate(tensors):
        page.note(Slot(str(number), "output", None), 0, each)
        if number == 7:
            x.add_(1)  # what was measured before stays
    page.finish()
    assert [slot.name for slot, *_ in page.rows] == [str(number) for number in range(len(tensors))]
    assert not skipped(page.readings, HISTOGRAM)
    return page, joined(page.readings, HISTOGRAM)

page, found = taken(given)
assert len(page.readings) < len(given)
x.sub_(1)
triton_launch.DEVICES = ()
page, expected = taken(given)
for name in ("count", "zeros", "nans", "infs", "min", "max"):
    np.testing.assert_allclose(found.rows[name], expected.rows[name], rtol=1e-6, err_msg=name)  # x moved by a rounding
np.testing.assert_allclose(found.rows["mean"], expected.rows["mean"], rtol=1e-6, atol=1e-6)
np.testing.assert_allclose(found.rows["m2"], expected.rows["m2"], rtol=2e-5)
if HISTOGRAM:
    for one, other in ((found.histograms, expected.histograms), (found.negatives, expected.negatives)):
        assert one.counts == other.counts and np.array_equal(one.filled, other.filled)
    assert found.sampled.tolist() == expected.sampled.tolist()
triton_launch.DEVICES = ("cpu",)
""".replace("HISTOGRAM", str(histogram))
    )


@needs_triton
@pytest.mark.parametrize("histogram", [False, True])
def test_it_compiles_for_a_gpu(in_a_process, tmp_path, histogram):
    program = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from backsight.recording.statistics import triton_kernel

types = {"table": "*i64", "owners": "*i64", "rows": "*fp64", "histograms": "*i32", "out": "*fp64"}
types |= {"address": "i64", "count": "i64", "kind": "i32", "first": "i32", "size": "i32"}
for kernel in (triton_kernel.measure_chunks, triton_kernel.measure_tensor, triton_kernel.merge_chunks):
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    source = ASTSource(kernel, signature, {(kernel.arg_names.index("HISTOGRAM"),): HISTOGRAM})
    assert compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
"""
    in_a_process(program.replace("HISTOGRAM}", f"{histogram}}}"), TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))


@pytest.mark.skipif(HAS_TRITON, reason="Triton is installed")
def test_without_triton_pytorch_takes_over_and_that_is_said_once(as_on_a_device):
    x = torch.randn(100)
    with pytest.warns(RuntimeWarning, match="Triton could not be imported"):
        assert measure([x]).rows["count"] == 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure([x])


def test_a_kernel_that_does_not_compile_is_given_up_once(as_on_a_device, monkeypatch):
    class Broken:
        MOST_CHUNKS = 4

        class measure_chunks:
            def __class_getitem__(cls, grid):
                raise RuntimeError("no such target")

    monkeypatch.setitem(sys.modules, "backsight.recording.statistics.triton_kernel", Broken)
    monkeypatch.setattr("backsight.recording.statistics.triton_kernel", Broken, raising=False)
    x = torch.randn(100)
    with pytest.warns(RuntimeWarning, match=r"kernel failed \(RuntimeError: no such target\)"):
        measured = measure([x])
    np.testing.assert_allclose(measured.rows["mean"], x.double().mean(), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure([x])


def test_rows_of_a_desk_whose_kernel_fails_say_why(as_on_a_device, monkeypatch):
    class Kernels:
        MOST_CHUNKS, COLUMNS = 4, 5

        class measure_tensor:
            def __class_getitem__(cls, grid):
                return lambda *given, **options: None

        class merge_chunks:
            def __class_getitem__(cls, grid):
                raise RuntimeError("no such target")

    monkeypatch.setitem(sys.modules, "backsight.recording.statistics.triton_kernel", Kernels)
    monkeypatch.setattr("backsight.recording.statistics.triton_kernel", Kernels, raising=False)
    page = Page(0)
    page.note(Slot("x", "output", None), 0, torch.randn(100))
    with pytest.warns(RuntimeWarning, match=r"kernel failed \(RuntimeError: no such target\)"):
        page.finish()
    assert skipped(page.readings, True) == {0: "was being measured when the Triton kernel failed"}
    page = Page(1)
    page.note(Slot("x", "output", None), 0, torch.randn(100))
    page.finish()
    assert not skipped(page.readings, True)
