# code: BS203
# variable: u
# cause: @torch.no_grad()
# fix: torch.enable_grad()
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def residual(x, t):
    x.requires_grad_(), t.requires_grad_()
    u = net(torch.cat([x, t], 1))
    u_t, u_x = torch.autograd.grad(u, (t, x), torch.ones_like(u), create_graph=True)
    return u_t - u_x


@torch.no_grad()
def validate():
    return residual(torch.rand(8, 1), torch.rand(8, 1)).abs().mean().item()


loss = residual(torch.rand(8, 1), torch.rand(8, 1)).pow(2).mean()
loss.backward()
print(validate())
