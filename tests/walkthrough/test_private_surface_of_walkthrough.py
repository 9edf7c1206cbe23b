"""What a walk needs of PyTorch beyond its documented surface is still there."""

import torch

from backsight.walkthrough import _torch


def test_nodes_are_callable():
    x = torch.ones(2, 3, requires_grad=True)
    result = (x * 2).grad_fn(torch.ones(2, 3))
    assert result[0].sum() == 12


def test_hooks_of_a_leaf_are_seen():
    x = torch.ones(2, requires_grad=True)
    assert _torch.hooks_of(x) == 0
    x.register_hook(lambda g: None)
    x.register_post_accumulate_grad_hook(lambda p: None)
    assert _torch.hooks_of(x) == 2


def test_saved_integers_have_their_sign():
    x = torch.ones(2, 3, requires_grad=True)
    assert _torch.saved(x.softmax(-1).grad_fn, "dim") == -1
    assert _torch.saved(x.sum((-1, 0)).grad_fn, "dim") == (-1, 0)


def test_the_formulas_ship_with_torch():
    from backsight.walkthrough.formulas import _formulas

    assert len(_formulas()) > 500
