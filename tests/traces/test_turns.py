"""Two networks that are trained in turn: as modules, and as tensors of their own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

import backsight as bs


class Pair:
    """A generator and its critic: modules, or the tensors of these without them."""

    def __init__(self, plain, scale):
        torch.manual_seed(0)
        nets = [nn.Sequential(nn.Linear(i, 8), nn.Tanh(), nn.Linear(8, o)) for i, o in ((3, 2), (2, 1))]
        self.nets = [self._plain(each) for each in nets] if plain else nets
        held = [[*each.parameters()] if not plain else [*each] for each in self.nets]
        self.made, self.told = (torch.optim.Adam(each, lr) for each, lr in zip(held, (1e-2, 2e-2), strict=True))
        self.plain, self.scale = plain, scale

    @staticmethod
    def _plain(net):
        return [each.detach().clone().requires_grad_() for each in net.parameters()]

    def apply(self, which, x):
        if not self.plain:
            return self.nets[which](x)
        first, shift, second, last = self.nets[which]
        return F.linear(torch.tanh(F.linear(x, first, shift)), second, last)

    def step(self, real, noise):
        fake = self.apply(0, noise)
        self.told.zero_grad()
        (self.apply(1, fake.detach()).mean() - self.apply(1, real).mean()).backward()
        self.told.step()
        self.made.zero_grad()
        (-self.scale * self.apply(1, fake).mean()).backward()
        self.made.step()


def traced(path, plain, scale=1.0):
    pair, generator = Pair(plain, scale), torch.Generator().manual_seed(1)
    with bs.trace(path, steps=(0, 1)) as trace:
        for _ in range(3):
            pair.step(torch.randn(6, 2, generator=generator), torch.randn(6, 3, generator=generator))
    return bs.open_trace(trace.path)


def test_the_first_step_of_networks_that_no_module_owns_waits_for_both_optimizers(tmp_path):
    trace = traced(tmp_path / "b", plain=True)
    updates = [sum(each.phase == "backward" and each.op.startswith("aten.mm") for each in trace.operations
               if each.step == step) for step in (0, 1)]  # fmt: skip
    assert updates[0] == updates[1] > 6


def test_networks_without_modules_that_are_trained_in_turn_as_those_with_modules_differ_in_nothing(tmp_path):
    difference = bs.diff(traced(tmp_path / "a", plain=False), traced(tmp_path / "b", plain=True))
    assert difference.cls == "same", str(difference)


def test_gradients_that_are_taken_before_each_of_two_optimizers_are_paired_in_that_order(tmp_path):
    difference = bs.diff(traced(tmp_path / "a", plain=False), traced(tmp_path / "b", plain=False, scale=3.0))
    assert difference.cls == "semantics" and "BS508" not in {each.code for each in difference.findings}, str(difference)
