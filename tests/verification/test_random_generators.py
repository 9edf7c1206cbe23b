"""Random generators are a program's own: what verifies or walks draws from them, and puts them back."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import backsight as bs


@pytest.fixture
def states():
    """Return a function that tells where the generators of Python, NumPy and PyTorch stand."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)

    def states():
        numpy = np.random.get_state()
        return random.getstate(), numpy[1].tobytes(), numpy[2:], torch.get_rng_state().tolist()

    return states


class Augmented(torch.nn.Module):
    def forward(self, x):
        return x * (1 + random.random()) * (1 + np.random.rand()) + torch.rand(3)


class StochasticRounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return (grad + torch.rand_like(grad)).floor() + random.random() + np.random.rand()


def rounded_twice(x):
    return StochasticRounding.apply(StochasticRounding.apply(x) * 0.5).sum()


def test_verify_puts_them_back(states):
    before = states()
    bs.verify(Augmented(), torch.randn(3, generator=torch.Generator().manual_seed(0)))
    assert states() == before


def test_verify_graph_puts_them_back(states):
    loss, before = rounded_twice(torch.full((4,), 0.5, requires_grad=True)), states()
    bs.verify_graph(loss)
    assert states() == before


class TestWalk:
    def test_it_puts_them_back(self, states):
        loss, before = rounded_twice(torch.full((4,), 0.5, requires_grad=True)), states()
        walk = bs.walk(loss)
        for step in walk:
            assert states() == before, step
        walk.free()
        assert states() == before

    def test_it_draws_what_backward_then_draws(self, states):
        x = torch.full((4,), 0.5, requires_grad=True)
        loss = rounded_twice(x)
        walk = bs.walk(loss).run()
        loss.backward()
        assert torch.equal(walk.grad("x"), x.grad)

    def test_the_program_may_draw_between_its_steps(self, states):
        x = torch.full((4,), 0.5, requires_grad=True)
        walks = [bs.walk(rounded_twice(x)).run(), bs.walk(rounded_twice(x))]
        for _ in walks[1]:
            torch.rand(3), random.random(), np.random.rand()
        assert torch.equal(*[walk.grad("x") for walk in walks])
