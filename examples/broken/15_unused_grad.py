"""A physics-informed network for the heat equation that forgets to look at the time.

What is wrong: the derivative of `u` with respect to `t` is asked for, but `u` was computed from `x` alone.
PyTorch says:  appears to not have been used in the graph
Fix:          feed both, `network(torch.cat([x, t], dim=1))`, to a network with two inputs. `allow_unused=True`
               is right only where the derivative may be absent; here it would turn `u_t` into None.
"""

import torch
from torch import nn


def solve(num_points=200, diffusivity=0.1):
    network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=20)
    x = torch.rand(num_points, 1, requires_grad=True)
    t = torch.rand(num_points, 1, requires_grad=True)

    def closure():
        optimizer.zero_grad()
        u = network(x)
        u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        residual = u_t - diffusivity * u_xx
        loss = (residual**2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    return network


torch.manual_seed(0)
solve()
