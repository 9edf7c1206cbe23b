"""While a CUDA graph is captured tensors have no values: nothing is read, and the recording says so."""

from __future__ import annotations

import warnings

import pytest
import torch
from trainings import names, train

import backsight as bs
from backsight.recording import metrics
from backsight.recording.statistics import measure
from backsight.recording.statistics import measure as measuring
from backsight.recording.statistics._torch import beside_captures
from backsight.recording.taps import updates

MODULE = "backsight.recording.statistics.measure"


@pytest.fixture
def captured(monkeypatch):
    """A switch: as if the current stream were being captured."""
    state = {"on": True}
    import importlib

    for module in (importlib.import_module(MODULE), metrics, updates):
        monkeypatch.setattr(module, "is_captured", lambda: state["on"])
    return state


def test_tensors_of_a_device_are_left_out_with_the_reason(captured):
    measured = measure([torch.ones(3, device="meta"), torch.ones(4)])
    assert "CUDA graph" in measured.skipped[0]
    assert measured.rows["count"].tolist() == [0, 4]
    captured["on"] = False
    assert "meta device" in measuring([torch.ones(3, device="meta")]).skipped[0]


def test_metrics_are_not_asked_about_tensors_of_a_device(captured, net, run):
    asked = []
    with bs.record(net, run=run) as rec:
        rec.metric("weight")(lambda tensor: asked.append(tensor.device.type) or 0.0)
        net.register_buffer("far", torch.ones(2, device="meta"))
        rec.metric("buffer")(lambda tensor: asked.append(tensor.device.type) or 0.0)
        rec.rearm()
        net(torch.randn(2, 6))
        rec.step()
    assert asked
    assert set(asked) == {"cpu"}


def test_no_copies_for_updates_are_made_in_a_capture(captured, net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run, taps=("weight", "update")):
        train(net, optimizer, 2)
        captured["on"] = False
        train(net, optimizer, 1)
    assert names(run, kind="update", steps=slice(0, 2)) == []
    assert len(names(run, kind="update", steps=2)) == 4


def test_waiting_beside_a_capture_needs_no_device():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with beside_captures(), beside_captures():
            pass
