"""Memory of a step on a device: measured and forecast, beside what the caching allocator says itself."""

from __future__ import annotations

import pickle
import sys

import pytest
import torch
from at_hand import DEVICE, REHEARSAL, ROOT, finished, only_there
from torch.cuda import _memory_viz

import backsight as bs

sys.path.insert(0, str(ROOT / "bench"))
from forecast import CASES, true_peak

from backsight.memory.caching_allocator import replay
from backsight.memory.plan import requests

pytestmark = pytest.mark.device("measured and forecast memory on CUDA")

WORKSPACES = {
    "convolutions with batch norm": 16 << 20,
    "LSTM of 64, 400 words": 128 << 20,
    "LSTM of 512, 2 layers, both ways": 128 << 20,
    "Conv3d": 16 << 20,
    "ConvTranspose2d": 16 << 20,
    "grouped Conv1d with weight norm": 16 << 20,
}
"""What cuDNN may take besides a forecast, by docs/forecast.md: on an H100 it was up to 9 MB, 43 MB and 97 MB."""


def prepared(name):
    """A case of the benchmark on the device, and its optimizer."""
    torch.manual_seed(0)
    case = CASES[name]()
    case.model.to(DEVICE)
    object.__setattr__(case, "batch", tuple(each.to(DEVICE) for each in case.batch))
    return case, case.optimizer(case.model.parameters())


def step_of(case, optimizer):
    def step():
        with torch.autocast(DEVICE, case.autocast, enabled=case.autocast is not None):
            loss = case.model(*case.batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def workspaces():
    """Have the libraries take what they keep, so that it is not counted as a step's."""
    x = torch.randn(64, 64, device=DEVICE, requires_grad=True)
    for dtype in (torch.float32, torch.bfloat16):
        (x.to(dtype) @ x.to(dtype)).float().sum().backward()
    torch.nn.functional.linear(x, x, x[0]).sum().backward()
    del x
    finished()


@pytest.mark.parametrize("name", CASES)
def test_a_forecast_is_within_two_percent_of_the_allocator_but_for_the_workspaces_of_cudnn(name, told):
    """Of the bytes handed out at the peak; what is reserved, fragments included, is told."""
    if not REHEARSAL:
        workspaces()
        torch.cuda.empty_cache()
        start, reserved_before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    case, optimizer = prepared(name)
    kind = torch.device(DEVICE).type
    options = {"autocast": case.autocast, "release": case.release, "device": kind}
    foretold = bs.forecast(case.model, case.batch, optimizer, variants=False, **options)
    if case.release is not None:
        bs.release(optimizer, bucket=case.release)
    if REHEARSAL:
        assert foretold.peak == pytest.approx(true_peak(case, optimizer), rel=0.02)
        return
    expected = replay(requests(foretold.memory.history))
    step = step_of(case, optimizer)
    step()
    finished()
    torch.cuda.reset_peak_memory_stats()
    step()
    finished()
    allocated = torch.cuda.max_memory_allocated() - start
    reserved = torch.cuda.max_memory_reserved() - reserved_before
    told(
        f"allocated {allocated / 2**20:.1f} MiB, forecast {expected.peak_allocated / allocated - 1:+.2%}; "
        f"reserved {reserved / 2**20:.0f} MiB, {expected.peak_reserved / reserved - 1:+.1%}"
    )
    assert bool(foretold.notes) == (name in WORKSPACES)
    assert 0.98 * expected.peak_allocated <= allocated
    assert allocated <= 1.02 * expected.peak_allocated + WORKSPACES.get(name, 0)


@pytest.mark.parametrize("name", ["decoder, 4×128", "decoder, 4×128, checkpointed", "100 layers of 256×256"])
def test_the_measured_peak_is_that_of_the_allocator(name, told):
    if not REHEARSAL:
        workspaces()
        start = torch.cuda.memory_allocated()
    case, optimizer = prepared(name)
    step = step_of(case, optimizer)
    step()
    finished()
    if not REHEARSAL:
        torch.cuda.reset_peak_memory_stats()
    with bs.measure_memory(case.model, optimizer) as measured:
        step()
        finished()
    expected = true_peak(case, optimizer) if REHEARSAL else torch.cuda.max_memory_allocated() - start
    told(f"{measured.peak / 2**20:.1f} of {expected / 2**20:.1f} MiB")
    assert measured.peak == pytest.approx(expected, rel=0.02)
    assert {"parameters", "gradients", "optimizer state", "saved for backward"} <= set(measured.by_kind)


def test_the_snapshot_is_read_by_the_viewer_of_pytorch(tmp_path):
    case, optimizer = prepared("decoder, 4×128")
    step = step_of(case, optimizer)
    step()
    with bs.measure_memory(case.model, optimizer) as measured:
        step()
        finished()
    measured.export_cuda_snapshot(tmp_path / "step.pickle")
    snapshot = pickle.loads((tmp_path / "step.pickle").read_bytes())
    assert {event["category"] for event in snapshot["device_traces"][0]} >= {"saved for backward", "gradients"}
    assert "Device 0" in _memory_viz.trace(snapshot)
    assert "snapshot.pickle" in _memory_viz.trace_plot(snapshot)
    assert _memory_viz.segsum(snapshot)


@only_there
def test_the_snapshot_has_the_parts_of_the_allocators_own(tmp_path):
    torch.cuda.memory._record_memory_history(max_entries=10_000)
    case, optimizer = prepared("100 layers of 256×256")
    step_of(case, optimizer)()
    finished()
    own = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    with bs.measure_memory(case.model, optimizer) as measured:
        step_of(case, optimizer)()
        finished()
    measured.export_cuda_snapshot(tmp_path / "step.pickle")
    ours = pickle.loads((tmp_path / "step.pickle").read_bytes())
    assert set(ours) <= set(own)
    segment, theirs = ours["segments"][0], own["segments"][0]
    assert set(segment) <= set(theirs), set(segment) - set(theirs)
    event = next(each for each in ours["device_traces"][0] if each["action"] == "alloc")
    expected = next(each for each in own["device_traces"][0] if each["action"] == "alloc")
    assert set(event) - {"category"} <= set(expected), set(event) - set(expected)
