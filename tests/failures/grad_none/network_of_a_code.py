# code: BS213
# variable: code.grad
# cause: setattr(module, name, nn.Parameter(piece))
# fix: torch.func.functional_call(net, {n: parts[n].view_as(p) for n, p in net.named_parameters()}, (x,))
"""The weights of a network as a function of a code, put into its modules piece by piece."""

import torch
from torch import nn


def fill(net, weights):
    at = 0
    for module in net.modules():
        for name in ("weight", "bias"):
            old = getattr(module, name, None)
            if isinstance(old, nn.Parameter):
                piece = weights[at : at + old.numel()].view_as(old)
                setattr(module, name, nn.Parameter(piece))
                at += old.numel()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
code = torch.randn(21, requires_grad=True)
x, y = torch.randn(8, 3), torch.randn(8, 1)
for _ in range(3):
    weights = code.sin() / code.norm()
    fill(net, weights)
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    with torch.no_grad():
        code -= 0.1 * code.grad
    code.grad = None
