"""Programs that compute the same in another way, with a mistake and without."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

import backsight as bs


class Heads(nn.Module):
    """Attention, as modules: one projection each."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (each(x).view(4, 6, 2, 8).transpose(1, 2) for each in (self.q, self.k, self.v))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(8)).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(4, 6, 16)).mean(1)


class Fused(nn.Module):
    """The same with one weight, einsum and a loop over the heads."""

    def __init__(self, scale=8**0.5, factor=1.0):
        super().__init__()
        parts = [nn.Linear(16, 16, bias=False) for _ in range(4)]
        self.qkv = nn.Parameter(torch.cat([each.weight.detach() for each in parts[:3]]))
        self.proj = nn.Parameter(parts[3].weight.detach().t().contiguous())
        self.scale, self.factor = scale, factor

    def forward(self, x):
        q, k, v = torch.einsum("bti,oi->bto", x, self.qkv).chunk(3, -1)
        found = []
        for part in (slice(0, 8), slice(8, 16)):
            scores = torch.einsum("bqc,bkc->bqk", q[..., part], k[..., part]) / self.scale
            found.append(torch.einsum("bqk,bkc->bqc", scores.softmax(-1), v[..., part]))
        y = torch.cat(found, -1) @ self.proj
        if self.factor != 1.0:
            y = y * self.factor + (y * (1 - self.factor)).detach()
        return y.sum(1) / 6


def trained(path, make, lr=0.1, steps=(0, 1), seed=0, **options):
    torch.manual_seed(seed)
    model = make(**options)
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9)
    generator = torch.Generator().manual_seed(5)
    with bs.trace(path, steps=steps, model=model):
        for _ in range(max(steps) + 1):
            x, y = torch.randn(4, 6, 16, generator=generator), torch.randint(0, 16, (4,), generator=generator)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return path


def test_another_way_to_compute_the_same_is_rounding_alone(tmp_path):
    difference = bs.diff(trained(tmp_path / "a", Heads), trained(tmp_path / "b", Fused))
    assert difference.cls == "noise" and {each.code for each in difference.findings} == {"BS503"}, str(difference)


def test_a_mistake_in_another_way_to_compute_is_named_where_values_part(tmp_path):
    difference = bs.diff(trained(tmp_path / "a", Heads), trained(tmp_path / "b", Fused, scale=4.0))
    assert difference.first.code == "BS501", str(difference)
    first, second = difference.origin.origin.places
    assert first.text.startswith("weights = (q @ k") and second.text.startswith("scores = torch.einsum")


def test_a_backward_that_differs_is_named_though_the_forward_is_computed_otherwise(tmp_path):
    difference = bs.diff(trained(tmp_path / "a", Heads), trained(tmp_path / "b", Fused, factor=0.5))
    assert difference.cls == "semantics" and difference.first.code == "BS507", str(difference)


def test_what_other_parameters_start_from_is_told(tmp_path):
    difference = bs.diff(trained(tmp_path / "a", Heads), trained(tmp_path / "b", Heads, seed=1))
    assert difference.first.code == "BS504"


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.body(x))


def test_statistics_are_compared_as_they_were_when_the_step_began(tmp_path):
    for name in ("a", "b"):
        torch.manual_seed(0)
        model, loss = Normed(), nn.CrossEntropyLoss() if name == "a" else F.cross_entropy
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.randn(8, 4)
        with bs.trace(tmp_path / name):
            loss(model(x), torch.arange(8) % 3).backward()
            optimizer.step()
    assert bs.diff(tmp_path / "a", tmp_path / "b").same
