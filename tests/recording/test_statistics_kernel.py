"""The C kernel: levels of the processor, threads, forks, and what it refuses."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from backsight.recording.reading import RECORD
from backsight.recording.statistics import measure, native
from backsight.recording.statistics.source import NATIVE
from backsight.runs import BINS

pytestmark = pytest.mark.skipif(native.kernel is None, reason="the kernel is not built here")
kernel = native.kernel


@pytest.fixture
def level():
    """The level in use, which is restored."""
    before = kernel.level()
    yield before
    kernel.use(before)


@pytest.fixture
def threads():
    """The number of PyTorch's threads, which is restored."""
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def some_of_every_kind() -> list[torch.Tensor]:
    torch.manual_seed(0)
    tensors = [(torch.randn(n) * 30).to(dtype) for dtype in NATIVE for n in (3, 1000, 4099, 100_000)]
    holes = torch.randn(100_000)
    holes[::7], holes[5::9], holes[3::11] = torch.nan, -torch.inf, 0
    return [*tensors, holes, holes.double(), holes.half(), holes.bfloat16()]


def test_the_best_level_is_in_use():
    assert kernel.level() == kernel.levels()[-1]
    assert kernel.levels()[0] == "baseline"


def test_kernel_and_store_have_as_many_bins():
    assert kernel.BINS == BINS


def test_all_levels_agree(level):
    found = []
    for name in kernel.levels():
        kernel.use(name)
        found.append(measure(some_of_every_kind()))
    for other in found[1:]:
        for name in ("count", "zeros", "nans", "infs", "min", "max"):
            np.testing.assert_array_equal(other.rows[name], found[0].rows[name])
        for name in ("mean", "m2"):
            np.testing.assert_allclose(other.rows[name], found[0].rows[name], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(other.histograms, found[0].histograms)
        np.testing.assert_array_equal(other.sampled, found[0].sampled)


def test_every_half_precision_number_is_read_as_pytorch_reads_it(level):
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    for name in kernel.levels():
        kernel.use(name)
        for dtype in (torch.float16, torch.bfloat16):
            numbers = every.view(dtype)
            one_by_one = measure(list(numbers.split(1)), histogram=False).rows
            expected = numbers[numbers.isfinite()].double().numpy()
            np.testing.assert_array_equal(one_by_one["max"][np.isfinite(one_by_one["max"])], expected)
            assert one_by_one["nans"].sum() == numbers.isnan().sum()
            assert one_by_one["infs"].sum() == 2


@pytest.mark.parametrize("count", [2, 3, 64, 1000])
def test_the_answer_does_not_depend_on_the_number_of_threads(threads, count):
    tensors = [torch.randn(3_000_001), *some_of_every_kind()]
    torch.set_num_threads(1)
    alone = measure(tensors)
    torch.set_num_threads(count)
    together = measure(tensors)
    assert together.rows.tobytes() == alone.rows.tobytes()
    assert together.histograms.tobytes() == alone.histograms.tobytes()


def test_several_threads_of_the_program_may_measure_at_once():
    tensors = some_of_every_kind()
    expected = measure(tensors).rows.tobytes()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert {m.rows.tobytes() for m in pool.map(lambda _: measure(tensors), range(40))} == {expected}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_measures_even_if_a_measurement_was_running():
    program = """
        import os, threading, torch
        from backsight.recording.statistics import measure
        torch.set_num_threads(2)
        x = torch.randn(4_000_000)
        expected = measure([x]).rows.tobytes()
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                measure([x])
        thread = threading.Thread(target=busy)
        thread.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if measure([x]).rows.tobytes() == expected else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
        print("ok")
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([1], [1], [0], True), TypeError),
        (((1,), [1], [0], True, 1), TypeError),
        (([1, 2], [1], [0], True, 1), ValueError),
        (([0], [5], [0], True, 1), ValueError),
        (([4096], [-1], [0], True, 1), ValueError),
        (([4096], [1], [99], True, 1), ValueError),
        (([4096], ["1"], [0], True, 1), TypeError),
        (([-1], [1], [0], True, 1), OverflowError),
    ],
)
def test_impossible_arrays_are_refused(arguments, error):
    with pytest.raises(error):
        kernel.measure(*arguments)


def test_plain_tensors_are_read_as_their_arrays_are():
    tensors = [torch.nn.Parameter(torch.randn(50, 50)), torch.randn(3, 200_000), torch.arange(-3, 4), torch.ones(2) > 0]
    arrays = native.arrays(tensors)
    rows, histograms, sampled = kernel.measure(arrays.addresses, arrays.counts, arrays.kinds, True, 2)
    records = np.frombuffer(kernel.read(tensors, native.PLAIN, NATIVE, True, 2), RECORD)
    assert records["row"].tobytes() == bytes(rows)
    assert records["histogram"].tobytes() == bytes(histograms)
    assert records["sampled"].tobytes() == bytes(sampled)
    assert kernel.read(tensors, native.PLAIN, NATIVE, False, 2) == bytes(rows)


@pytest.mark.parametrize(
    "other",
    [
        torch.ones(2, 3).t(),
        torch.ones(4)[::2],
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.empty(0),
        torch.ones(2).as_subclass(type("Own", (torch.Tensor,), {})),
        "no tensor",
    ],
    ids=str,
)
def test_a_list_with_a_tensor_that_is_not_plain_is_left_to_python(other):
    assert kernel.read([torch.ones(2), other], native.PLAIN, NATIVE, True, 1) is None


def test_released_memory_is_not_read():
    tensor = torch.ones(8)[4:]
    tensor.untyped_storage().resize_(0)
    assert kernel.read([tensor], native.PLAIN, NATIVE, True, 1) is None


@pytest.mark.parametrize("arguments", [([], (), (), True), ((), (), NATIVE, True, 1), ([], (), (), True, 1)])
def test_read_says_what_it_takes(arguments):
    with pytest.raises(TypeError, match="tensors: list"):
        kernel.read(*arguments)


def test_unknown_levels_are_refused():
    with pytest.raises(ValueError, match="this processor has no level 'mmx'"):
        kernel.use("mmx")
    with pytest.raises(ValueError, match="no level 3"):
        kernel.use(3)
