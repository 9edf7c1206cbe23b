"""A trace of the CPU beside one that says that a GPU made it, with the kernels that a GPU has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from test_hostile_traces import frames_of, written
from torch import nn
from torch.nn import functional as F

import backsight as bs
from backsight.traces.records import PRINT

CUDA = {
    "aten.convolution.default": "aten.cudnn_convolution.default",
    "aten.native_batch_norm.default": "aten.cudnn_batch_norm.default",
    "aten.native_batch_norm_backward.default": "aten.cudnn_batch_norm_backward.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default": "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": (
        "aten._scaled_dot_product_flash_attention_backward.default"
    ),
}


class Net(nn.Module):
    def __init__(self, eps: float = 1e-5):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8, eps=eps), nn.Linear(8, 2)

    def forward(self, x):
        h = torch.relu(self.norm(self.conv(x))).transpose(1, 2)[:, None]
        return self.out(F.scaled_dot_product_attention(h, h, h)[:, 0]).square().mean()


@pytest.fixture
def trained(tmp_path):
    def run(name: str, **options) -> Path:
        torch.manual_seed(0)
        net, x = Net(**options), torch.randn(4, 4, 16)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        with bs.trace(tmp_path / name):
            net(x).backward()
            optimizer.step()
        return tmp_path / name

    return run


def on_a_gpu(trace: Path, rounded: float = 0.0) -> Path:
    """Return a copy of a trace as a GPU would have left it: its device, its kernels, and rounding of its own."""
    found, generator, first = [], np.random.default_rng(0), 0
    frames = frames_of((trace / "0.trace").read_bytes())
    values = [row for kind, payload in frames if kind == b"V" for row in json.loads(payload)]
    given = {row[3] for row in values if row[4] == -1}  # weights and batches were the same
    for kind, payload in frames:
        if kind == b"V":
            payload = json.dumps([[*row[:2], "cuda:0", *row[3:]] for row in json.loads(payload)]).encode()
        elif kind == b"O":
            rows = json.loads(payload)
            for row in rows:
                row[3] = CUDA.get(row[3], row[3])
                if "flash_attention" in row[3] and "backward" not in row[3]:
                    row[8] = [*row[8], row[8][-1]]  # the state of a generator, of which a CPU has none
            payload = json.dumps(rows).encode()
        elif kind == b"P" and rounded:
            rows = np.frombuffer(payload, PRINT).copy()
            made = np.array([first + place not in given for place in range(len(rows))])
            rows["hash"][made] ^= generator.integers(1, 1 << 60, made.sum(), dtype=np.uint64)
            rows["sketch"][made] *= 1 + rounded * generator.standard_normal((made.sum(), 1))
            payload, first = rows.tobytes(), first + len(rows)
        elif kind == b"K" and rounded:
            continue
        found.append((kind, payload))
    folder = trace.with_name(f"{trace.name}-gpu")
    folder.mkdir()
    return written(folder, found)


def test_the_same_bits_on_another_device_are_the_same(trained):
    ours = trained("a")
    difference = bs.diff(ours, on_a_gpu(trained("b")))
    assert difference.cls == "same", difference.text()
    step = difference.steps[0]
    assert (step.only_a, step.only_b) == (0, 0)


def test_kernels_of_another_device_are_paired_with_those_of_the_cpu_and_their_rounding_is_no_mistake(trained):
    difference = bs.diff(trained("a"), on_a_gpu(trained("b"), rounded=1e-7))
    assert difference.cls in ("noise", "precision"), difference.text()
    assert (difference.steps[0].only_a, difference.steps[0].only_b) == (0, 0)
    assert "The device is cpu in A and cuda in B" in str(difference)


def test_a_mistake_is_found_beside_another_device(trained):
    difference = bs.diff(trained("a"), on_a_gpu(trained("b", eps=1e-2)))
    assert (difference.cls, difference.first.code) == ("semantics", "BS501"), difference.text()
    assert "norm" in difference.origin.origin.a.op
