"""The C kernel: levels of the processor, threads, forks, and what it refuses."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest
import torch

from backsight.recording.page import Slot
from backsight.recording.reading import Records, joined
from backsight.recording.statistics import measure, native
from backsight.recording.statistics._torch import function_mode
from backsight.recording.statistics.source import NATIVE
from backsight.runs import BINS, STATISTICS, PackedHistograms

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
        np.testing.assert_array_equal(other.negatives, found[0].negatives)
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
    assert together.negatives.tobytes() == alone.negatives.tobytes()


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


@pytest.fixture(params=["by DLPack", "by attributes"])
def asked(request):
    """Both ways in which the kernel learns where a tensor lies; the second is for PyTorch before 2.10."""
    if request.param == "by DLPack" and native.EXCHANGE is None:
        pytest.skip("this PyTorch has no exchange functions")
    arguments = (native.PLAIN, NATIVE, torch.get_num_threads, function_mode)
    kernel.connect(*arguments, native.EXCHANGE if request.param == "by DLPack" else None)
    yield
    kernel.connect(*arguments, native.EXCHANGE)


def entry(tensor, call=0):
    return Slot("fc.weight", "weight", "fc"), call, tensor


def test_a_sheet_measures_plain_tensors_as_their_arrays_are(asked):
    tensors = [torch.nn.Parameter(torch.randn(50, 50)), torch.randn(3, 200_000), torch.arange(-3, 4), torch.ones(2) > 0]
    tensors += [torch.randn(3).to(dtype) for dtype in NATIVE] + [torch.tensor(3.0), torch.ones(1, 4).expand(1, 4)]
    arrays = native.arrays(tensors)
    rows, *counts, sampled = kernel.measure(arrays.addresses, arrays.counts, arrays.kinds, True, 2)
    for together in (True, False):
        noted: list[object] = []
        sheet = kernel.Sheet(noted, True)
        entries = [entry(tensor, call) for call, tensor in enumerate(tensors)]
        assert sheet.note_all(entries) if together else all(sheet.note(*each) for each in entries)
        found = joined([Records(*sheet.take())], True)
        assert found.rows.tobytes() == bytes(rows)
        assert found.sampled.tobytes() == bytes(sampled)
        for held, each in zip((found.histograms, found.negatives), counts, strict=True):
            packed = PackedHistograms.of(np.frombuffer(each, np.uint32).reshape(-1, 64))
            assert held.filled.tobytes() == packed.filled.tobytes()
            assert held.counts == packed.counts
        assert noted == [(slot, call, tensor.shape, tensor.dtype) for slot, call, tensor in entries]


def test_without_histograms_a_sheet_has_rows_alone(asked):
    sheet = kernel.Sheet([], False)
    assert sheet.note(*entry(torch.tensor([1.0, 2.0])))
    records, counts, negatives = sheet.take()
    assert np.frombuffer(records, STATISTICS)["max"].tolist() == [2.0]
    assert (counts, negatives, sheet.take()) == (b"", b"", (b"", b"", b""))


def test_a_sheet_that_begins_anew_has_forgotten_what_was_on_it(asked):
    before, after, tensor = [], [], torch.zeros(5000)
    sheet = kernel.Sheet(before, True)
    assert sheet.note(*entry(tensor))
    sheet.begin(after)
    tensor.data.fill_(1.0)  # which raises no version: what is remembered would show
    assert sheet.note(*entry(tensor))
    assert joined([Records(*sheet.take())], True).rows["max"].tolist() == [1.0]
    assert (len(before), len(after)) == (1, 1)


def test_the_row_of_a_slot_is_the_same_object_until_its_tensor_changes(asked):
    slot = Slot("x", "input", "")
    rows = []
    sheet = kernel.Sheet(rows, True)
    changing = [torch.ones(2, 3), torch.zeros(2, 3), torch.ones(3, 2), torch.ones(3, 2).double()]
    assert all(sheet.note(slot, 0, tensor) for tensor in changing)
    assert rows[0] is rows[1]
    assert rows == [(slot, 0, tensor.shape, tensor.dtype) for tensor in changing]


def test_a_large_tensor_is_read_once_until_it_is_written_to(asked):
    sheet, tensor = kernel.Sheet([], True), torch.zeros(5000)
    assert sheet.note(*entry(tensor))
    tensor.data.fill_(1.0)  # which raises no version: a second reading would show
    assert sheet.note(*entry(tensor))
    tensor.fill_(2.0)
    assert sheet.note(*entry(tensor))
    found = joined([Records(*sheet.take())], True)
    assert found.rows["max"].tolist() == [0.0, 0.0, 2.0]


def test_a_tensor_in_the_place_of_a_freed_one_is_read_anew(asked):
    sheet = kernel.Sheet([], True)
    for number in range(200):
        assert sheet.note(*entry(torch.full((5000,), float(number))))
    assert joined([Records(*sheet.take())], True).rows["max"].tolist() == list(range(200))


def test_a_sheet_keeps_no_tensor_alive(asked):
    sheet, tensor = kernel.Sheet([], True), torch.zeros(5000)
    assert sheet.note(*entry(tensor)) and sheet.note_all([entry(tensor)])
    reference = weakref.ref(tensor)
    del tensor
    assert reference() is None


def test_inference_tensors_have_no_version_and_are_read_each_time(asked):
    with torch.inference_mode():
        tensor = torch.ones(5000)
    sheet = kernel.Sheet([], True)
    assert sheet.note(*entry(tensor)) and sheet.note(*entry(tensor))
    assert joined([Records(*sheet.take())], True).rows["count"].tolist() == [5000, 5000]


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
def test_what_is_not_plain_is_left_to_python(asked, other):
    rows = []
    sheet = kernel.Sheet(rows, True)
    assert not sheet.note(*entry(other))
    assert not sheet.note_all([entry(torch.ones(2)), entry(other)])
    assert rows == []
    assert sheet.take() == (b"", b"", b"")


def test_released_memory_is_not_read(asked):
    tensor = torch.ones(8)[4:]
    tensor.untyped_storage().resize_(0)
    assert not kernel.Sheet([], True).note(*entry(tensor))


def test_no_mode_of_the_user_sees_what_a_sheet_asks(asked):
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    tensor = torch.ones(5000)
    with Mode():
        assert not kernel.Sheet([], True).note(*entry(tensor))
    assert seen == []


def test_a_sheet_says_what_it_takes():
    sheet = kernel.Sheet([], True)
    for wrong, message in (
        (lambda: kernel.Sheet((), True), "list"),
        (lambda: sheet.begin(()), "rows: list"),
        (lambda: sheet.note(torch.ones(1)), "slot, call, tensor"),
        (lambda: sheet.note_all(()), "entries: list"),
        (lambda: sheet.note_all([torch.ones(1)]), "an entry is"),
        (lambda: kernel.connect((), NATIVE, len, len), "5 arguments"),
    ):
        with pytest.raises(TypeError, match=message):
            wrong()
    with pytest.raises(ValueError, match="10 kinds"):
        kernel.connect((), (), len, len, None)
    with pytest.raises(AttributeError, match="_rows"):
        sheet.note("no slot", 0, torch.ones(1))
