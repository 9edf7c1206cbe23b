"""Recording where there is no C kernel: the same rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from trainings import Net, train

import backsight as bs
from backsight.recording.statistics import native


@pytest.fixture
def without_kernel(monkeypatch):
    """Call it, and the kernel is gone, as where there was no compiler."""
    yield lambda: (monkeypatch.setattr(native, "kernel", None), native.available.cache_clear())
    monkeypatch.undo()
    native.available.cache_clear()


def recorded(run):
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    with bs.record(net, optimizer, run):
        train(net, optimizer, 4)
    return bs.open_run(run)


@pytest.mark.skipif(native.kernel is None, reason="the kernel is not built here")
@pytest.mark.filterwarnings("ignore:backsight was installed without its C kernel")
def test_the_pure_torch_path_records_the_same_rows(tmp_path, without_kernel):
    by_kernel = recorded(tmp_path / "kernel")
    without_kernel()
    by_torch = recorded(tmp_path / "torch")
    expected, found = by_kernel.frame(as_="numpy"), by_torch.frame(as_="numpy")
    assert list(expected) == list(found)
    for name, column in expected.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(found[name], column, rtol=1e-6, atol=1e-12, equal_nan=True)
        else:
            assert found[name].tolist() == column.tolist(), name
    of = {"tensor": "first.weight", "kind": "grad"}
    torch_counts, kernel_counts = by_torch.histograms(**of), by_kernel.histograms(**of)
    assert torch_counts.counts.tolist() == kernel_counts.counts.tolist()
    assert torch_counts.negatives.tolist() == kernel_counts.negatives.tolist()
    assert torch_counts.signed.all()
    assert kernel_counts.signed.all()
