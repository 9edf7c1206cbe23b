# code: BS202
# fix: new = u.clone(); new[1:-1] =
# variable: u
# cause: u[1:-1] = u[1:-1] + change(u)
"""The inner points of a rod are overwritten at each time step, although the step before needs them."""

import torch

torch.manual_seed(0)
log_rate = torch.nn.Parameter(torch.tensor(-2.0))


def change(u):
    left, middle, right = u[:-2], u[1:-1], u[2:]
    return log_rate.exp() * (right - 2 * middle + left) - middle * (right - left) * 0.1


u = torch.rand(20)
for _ in range(5):
    u[1:-1] = u[1:-1] + change(u)
u.square().mean().backward()
