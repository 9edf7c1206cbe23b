"""The device's time of each node, beside what PyTorch's own profiler adds up."""

from __future__ import annotations

import pytest
import torch
from at_hand import DEVICE, REHEARSAL, finished
from torch import nn

import backsight as bs

pytestmark = pytest.mark.device("the profile of a step on CUDA")


def made():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6))).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(256, 512, device=DEVICE)

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    finished()
    return model, step


def test_the_times_on_the_device_add_up_to_those_of_pytorchs_profiler(told):
    model, step = made()
    for _ in range(2):  # the first profile loads the library
        with bs.profile(model) as times:
            step()
            finished()
    with torch.profiler.profile() as theirs:
        step()
        finished()
    if REHEARSAL:
        assert times.device is None
        return
    assert times.device == "cuda"
    ours = sum(row.device_total for row in times.rows)
    kernels = [each for each in theirs.key_averages() if each.device_type == torch.autograd.DeviceType.CUDA]
    expected = sum(each.self_device_time_total for each in kernels if not each.is_user_annotation) * 1e-6
    told(f"{ours * 1e3:.3f} of {expected * 1e3:.3f} ms on the device")
    assert ours == pytest.approx(expected, rel=0.25)  # two runs of the same kernels
    assert all(row.device_backward > 0 for row in times.rows if row.op == "AddmmBackward0")
    assert sum(row.device_update for row in times.rows) > 0


def test_every_layer_has_its_nodes():
    model, step = made()
    with bs.profile(model) as times:
        step()
        finished()
    assert {row.module for row in times.rows if row.op == "AddmmBackward0"} == {f"{k}.0" for k in range(6)}
    assert times.rows == tuple(
        sorted(times.rows, key=lambda row: row.device_total if times.device else row.total, reverse=True)
    )


def test_the_trace_is_exported(tmp_path):
    model, step = made()
    with bs.profile(model) as times:
        step()
        finished()
    times.export_chrome_trace(tmp_path / "trace.json.gz")
    assert (tmp_path / "trace.json.gz").stat().st_size > 1000
    assert "AddmmBackward0" in str(times)
