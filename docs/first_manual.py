"""A layer with its backward by hand, and three of the usual slips in it."""

import torch
from torch import nn

import backsight as bs

torch.manual_seed(0)
layer = nn.Sequential(nn.Linear(3, 2), nn.Sigmoid())
x, grad_out = torch.randn(8, 3), torch.randn(8, 2)

try:
    bs.testing.assert_manual_backward(
        layer,
        x,
        grad_out,
        weight_grad=x.T @ (grad_out * layer(x) * (1 - layer(x))),
        bias_grad=grad_out.sum(0),
        input_grad=-(grad_out * layer(x) * (1 - layer(x))) @ layer[0].weight,
    )
except AssertionError as difference:
    print(difference)
