"""Statistics of tensors on a device are those that the C kernel finds of the same tensors on the CPU."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from at_hand import DEVICE, REHEARSAL, Waits, finished, needs_triton, only_there

from backsight.recording.statistics import measure, native, triton_launch
from backsight.recording.statistics.source import NATIVE
from backsight.runs import STATISTICS

pytestmark = [
    pytest.mark.device("the statistics of CUDA tensors, by Triton and without"),
    pytest.mark.usefixtures("quietly"),
]

COUNTS = ("count", "zeros", "nans", "infs")
EXTREMES = ("min", "max")
LENGTHS = (0, 1, 15, 512, 1025, 65_536, 65_537, 1_000_003)
SPECIAL = (0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 65504.0, 6e-8, 1e-45, 1e-30, 1e30, 3.4e38, 5e-324, 1.7e308)


@pytest.fixture(params=["by the kernel", "by operations"])
def way(request, monkeypatch):
    """Both ways that a device has: the Triton kernel, and PyTorch's own operations."""
    monkeypatch.setattr(triton_launch, "_FAILED", [])
    if request.param == "by operations":
        monkeypatch.setattr(triton_launch, "DEVICES", ())
        if REHEARSAL:
            monkeypatch.setattr(native, "available", lambda: False)
    yield request.param
    assert triton_launch._FAILED == []


def on_the_device(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the device, laid out in memory in the same way."""
    return tensor.to(DEVICE, copy=True)


def agree(tensors: list[torch.Tensor]) -> None:
    """Measure tensors of the CPU there and on the device, and compare every number."""
    with pytest.MonkeyPatch.context() as patch:
        if native.kernel is not None:
            patch.setattr(native, "available", lambda: True)
        expected = measure(tensors)
        expected.rows  # what is on its way arrives
    found = measure([on_the_device(each) for each in tensors])
    assert found.skipped == expected.skipped
    for name in (*COUNTS, *EXTREMES):
        np.testing.assert_array_equal(found.rows[name], expected.rows[name], err_msg=name)
    rows = expected.rows
    n = np.maximum(rows["count"] - rows["nans"] - rows["infs"], 1)
    with np.errstate(all="ignore"):
        largest = np.nan_to_num(np.maximum(abs(rows["min"]), abs(rows["max"])))
        spread = np.minimum(np.sqrt(rows["m2"] / n), largest)
    for at in range(len(tensors)):
        slack = 1e-5 * spread[at] + 1e-14 * largest[at]
        np.testing.assert_allclose(found.rows["mean"][at], rows["mean"][at], rtol=1e-6, atol=slack)
        if largest[at] < 1e150:
            off = n[at] * (1e-14 * largest[at]) ** 2
            np.testing.assert_allclose(found.rows["m2"][at], rows["m2"][at], rtol=2e-5, atol=off)
    np.testing.assert_array_equal(found.histograms, expected.histograms)
    np.testing.assert_array_equal(found.negatives, expected.negatives)
    np.testing.assert_array_equal(found.sampled, expected.sampled)


@needs_triton
@only_there
def test_the_kernel_compiles_here_and_is_what_measures(monkeypatch, told):
    launched = []
    monkeypatch.setattr(
        triton_launch, "_launched", lambda *given, was=triton_launch._launched: launched.append(1) or was(*given)
    )
    began = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    x = torch.randn(1_000_000, device=DEVICE)
    began[0].record()
    assert measure([x]).rows["count"] == 1_000_000
    began[1].record()
    finished()
    assert launched == [1]
    told(f"first launch, compiled: {began[0].elapsed_time(began[1]):.0f} ms")


@pytest.mark.parametrize("dtype", NATIVE, ids=str)
def test_every_type_at_every_length(way, dtype):
    def drawn(count):
        return torch.rand(count) < 0.3 if dtype == torch.bool else (torch.randn(count) * 20).to(dtype)

    agree([drawn(count) for count in LENGTHS])


@pytest.mark.parametrize("dtype", [d for d in NATIVE if d.is_floating_point], ids=str)
def test_special_values_are_counted_and_left_out(way, dtype):
    values = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    alone = list(values.split(1))
    mixed = [values[torch.randint(len(SPECIAL), (count,))] for count in (3, 100, 5000, 100_000)]
    agree([*alone, *mixed, torch.full((3000,), math.nan).to(dtype)])


def test_layouts(way):
    x = torch.randn(60, 40, 50)
    images = torch.randn(4, 3, 16, 16).to(memory_format=torch.channels_last)
    agree([x.transpose(0, 2), x[::3], x[:, ::2, 1:], x[0].expand(7, 40, 50), images, torch.tensor(3.0), x[:0]])
    agree([torch.view_as_complex(torch.randn(300, 2)), torch.randn(20, 30).to_sparse(), torch.eye(50).to_sparse_csr()])
    agree([torch.view_as_complex(torch.randn(300, 2)).conj().imag, torch.randn(64).to(torch.float8_e4m3fn)])


def test_an_offset_costs_no_digits_and_large_numbers_do_not_overflow(way):
    offset = torch.randn(500_000, dtype=torch.float64) + 1e8
    largest = torch.tensor([1.7e308, -1.7e308, 1.7e308] * 1000, dtype=torch.float64)
    agree(
        [offset, offset.float(), largest, torch.full((70_000,), 0.1), torch.cat((torch.zeros(9), torch.ones(9) * 1e6))]
    )


def test_a_tensor_of_more_than_two_thousand_million_numbers(way):
    count = 3_000_001 if REHEARSAL else 2**31 + 12_345
    x = torch.zeros(count, dtype=torch.bfloat16, device=DEVICE)
    x[-1], x[-2], x[count // 2], x[0] = math.nan, 5.0, -3.0, math.inf
    row = dict(zip(STATISTICS.names, measure([x]).rows[0].tolist(), strict=True))
    assert {name: row[name] for name in (*COUNTS, *EXTREMES)} == {
        "count": count,
        "zeros": count - 4,
        "nans": 1,
        "infs": 1,
        "min": -3.0,
        "max": 5.0,
    }
    assert row["mean"] == pytest.approx(2.0 / (count - 2))


def test_very_many_tensors_at_once(way):
    agree([torch.randn(int(count)) for count in torch.randint(0, 5000, (1500 if way == "by the kernel" else 100,))])


def test_the_same_bits_each_time(way):
    tensors = [torch.randn(count, device=DEVICE) for count in (3, 70_001, 2_000_003)]
    assert len({measure(tensors).rows.tobytes() for _ in range(5)}) == 1


def test_nothing_is_waited_for_until_it_is_looked_at(way):
    tensors = [
        torch.randn(n, device=DEVICE).to(d) for n in (10, 300_000) for d in (torch.float32, torch.half, torch.int64)
    ]
    tensors.append(torch.randn(40, 50, device=DEVICE).t()[::2])
    measure(tensors)
    with Waits() as waits:
        found = measure(tensors)
    assert waits.count == 0 or (REHEARSAL and way == "by operations"), waits.told  # on the CPU nobody has to wait
    assert found.rows["count"].tolist() == [each.numel() for each in tensors]


@only_there
def test_what_is_written_afterwards_is_not_seen_and_what_was_queued_before_is(way):
    x = torch.zeros(5_000_000, device=DEVICE)
    torch.cuda._sleep(50_000_000)
    x.fill_(1.0)
    first = measure([x])
    x.fill_(2.0)
    second = measure([x])
    del x
    torch.full((5_000_000,), 3.0, device=DEVICE)  # the memory of x again
    assert [first.rows["max"][0], second.rows["max"][0]] == [1.0, 2.0]


@only_there
def test_on_a_stream_of_its_own(way):
    stream = torch.cuda.Stream()
    found = []
    with torch.cuda.stream(stream):
        for number in range(20):
            torch.cuda._sleep(2_000_000)
            x = torch.full((300_000,), float(number), device=DEVICE)
            found.append(measure([x, x[::2]]))
            del x
    assert [each.rows["max"].tolist() for each in found] == [[n, n] for n in range(20)]


@only_there
def test_in_the_capture_of_a_cuda_graph_it_says_so_and_leaves_the_capture_whole(way):
    x = torch.ones(1000, device=DEVICE)
    measure([x]).rows
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
        found = measure([y])
    assert "CUDA graph" in found.skipped[0]
    for _ in range(3):
        graph.replay()
    finished()
    assert y.sum().item() == 2000
    assert measure([y]).rows["max"] == 2.0


def test_under_deterministic_algorithms(way):
    try:
        torch.use_deterministic_algorithms(True)
        agree([torch.randn(100_000), torch.randn(30, 50).t()[::2], torch.arange(1000)])
    finally:
        torch.use_deterministic_algorithms(False)
