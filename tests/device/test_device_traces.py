"""Traces of a training on a device: twice the same, apart by rounding from that of the CPU, and where a mistake is."""

from __future__ import annotations

import pytest
import torch
from at_hand import DEVICE, only_there
from torch import nn

import backsight as bs

pytestmark = pytest.mark.device("traces of a training on CUDA, and diff")


class Net(nn.Module):
    def __init__(self, epsilon=1e-5):
        super().__init__()
        self.picture = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8, eps=epsilon)
        self.mixed = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.picture(x))).flatten(2).transpose(1, 2)
        x = self.mixed(x, x, x, need_weights=False)[0]
        return self.last(x.mean(1))


def trained(path, device, *, epsilon=1e-5, fused=None, traced=True, steps=3):
    torch.manual_seed(0)
    data = [(torch.randn(8, 3, 8, 8), torch.randint(4, (8,))) for _ in range(steps)]
    net = Net(epsilon).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, fused=fused)

    def train():
        for x, y in data:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x.to(device)), y.to(device)).backward()
            optimizer.step()

    if traced:
        with bs.trace(path, steps=(0, 2)):
            train()
    else:
        train()
    return [each.detach().cpu() for each in net.parameters()]


def test_a_trace_changes_no_bit_and_two_are_the_same(tmp_path):
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the others add in any order
            plain = trained(None, DEVICE, traced=False)
            one, other = (trained(tmp_path / name, DEVICE) for name in ("one", "other"))
    finally:
        torch.use_deterministic_algorithms(False)
    for a, b, c in zip(plain, one, other, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)
    assert bs.diff(tmp_path / "one", tmp_path / "other").same


def test_the_same_training_on_the_cpu_is_apart_by_rounding_alone(tmp_path, told):
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        trained(tmp_path / "here", DEVICE)
    finally:
        torch.backends.cudnn.allow_tf32 = before
    trained(tmp_path / "cpu", "cpu")
    found = bs.diff(tmp_path / "cpu", tmp_path / "here")
    told(" / ".join(str(found).splitlines()[:3])[:200])
    assert found.cls in ("same", "noise"), str(found)


@only_there
def test_tf32_is_told_as_precision(tmp_path, told):
    def multiplied(path):
        torch.manual_seed(0)
        net, x = nn.Linear(1024, 1024).to(DEVICE), torch.randn(256, 1024).to(DEVICE)
        with bs.trace(path, steps=(0,)) as trace:
            net(x).square().mean().backward()
            trace.step()

    multiplied(tmp_path / "exact")
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        multiplied(tmp_path / "tf32")
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    found = bs.diff(tmp_path / "exact", tmp_path / "tf32")
    told(" / ".join(str(found).splitlines()[:3])[:200])
    assert found.cls == "precision", str(found)


def test_a_mistake_is_found_between_devices(tmp_path):
    trained(tmp_path / "cpu", "cpu")
    trained(tmp_path / "here", DEVICE, epsilon=1e-2)
    told = str(bs.diff(tmp_path / "cpu", tmp_path / "here"))
    assert "norm" in told
    assert "eps" in told


def test_another_optimizer_kernel_is_rounding(tmp_path):
    trained(tmp_path / "one", DEVICE, fused=True)
    trained(tmp_path / "other", DEVICE, fused=False)
    found = bs.diff(tmp_path / "one", tmp_path / "other")
    assert found.cls in ("same", "noise"), str(found)
