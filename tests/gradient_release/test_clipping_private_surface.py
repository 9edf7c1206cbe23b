"""PyTorch's private attributes that clipping uses. A failure names what has changed."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge

from backsight.gradient_release import _amp
from backsight.gradient_release.clipping import _torch


class Asks(torch.autograd.Function):
    """A node that notes whether the node of a leaf will run in the backward pass under way."""

    @staticmethod
    def forward(ctx, given, leaf, node, answers):
        ctx.node, ctx.answers = node, answers
        return given.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.answers.append(_torch.runs_in_this_backward(ctx.node))
        return gradient, None, None, None


def test_a_leaf_of_which_nobody_knows_tells_backward_from_autograd_grad():
    given, leaf, answers = torch.ones(2, requires_grad=True), torch.zeros((), requires_grad=True), []
    node = get_gradient_edge(leaf).node
    loss = Asks.apply(given, leaf, node, answers).sum()
    loss.backward(retain_graph=True)
    torch.autograd.grad(loss, given, retain_graph=True)
    loss.backward(inputs=[given])
    assert answers == [True, False, False]


def test_transforms_are_seen():
    seen = []
    torch.func.vmap(lambda x: seen.append(_torch.is_transformed()) or x)(torch.ones(2))
    with torch.autograd.forward_ad.dual_level():
        seen.append(_torch.is_transformed())
    assert seen == [True, True] and not _torch.is_transformed()


def test_hooks_on_a_gradient_are_seen():
    weight = torch.ones(2, requires_grad=True)
    weight.register_post_accumulate_grad_hook(lambda p: None)  # that of the release
    assert not _torch.has_hooks(weight)
    other = weight.register_post_accumulate_grad_hook(lambda p: None)
    assert _torch.has_hooks(weight)
    other.remove()
    weight.register_hook(lambda gradient: None)
    assert _torch.has_hooks(weight)


def test_a_global_forward_hook_can_be_put_first():
    order = []
    register = nn.modules.module.register_module_forward_hook
    first = register(lambda *args: order.append("earlier"))
    second = register(lambda *args: order.append("ours"))
    try:
        _torch.before_other_forward_hooks(second)
        nn.Identity()(1)
    finally:
        first.remove()
        second.remove()
    assert order == ["ours", "earlier"]


def test_groups_keep_the_places_of_their_tensors():
    tensors = [torch.ones(1), torch.ones(1, dtype=torch.float64), torch.ones(1)]
    assert sorted(_torch.by_device_and_dtype(tensors)) == [[0, 2], [1]]


def test_the_kernel_of_grad_scaler_finds_an_overflow_and_divides():
    gradients, found = [torch.tensor([4.0]), torch.tensor([torch.inf])], torch.zeros(())
    _amp.check_and_unscale(gradients, found, torch.tensor(0.25))
    assert gradients[0] == 1 and found == 1


def test_a_scaler_that_has_scaled_has_a_scale_which_the_graph_keeps():
    scaler = torch.amp.GradScaler("cpu", init_scale=32.0)
    assert not _amp.has_scaled(scaler)
    loss = scaler.scale(torch.ones(1, requires_grad=True).sum()) / 3
    assert _amp.has_scaled(scaler)
    assert 32.0 in [float(number) for number in _amp.multipliers(loss)]
