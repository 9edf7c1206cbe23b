# code: BS204
# variable: between
# cause: out = critic(torch.lerp(real, fake, t)).sum()
# fix: out = critic(between).sum()
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def penalty(real, fake):
    t = torch.rand(len(real), 1)
    between = torch.lerp(real, fake, t).requires_grad_()
    out = critic(torch.lerp(real, fake, t)).sum()
    (slope,) = torch.autograd.grad(out, between, create_graph=True)
    return (slope.norm(dim=1) - 1).pow(2).mean()


for k in range(30):
    real, fake = torch.randn(64, 2) + 2, torch.randn(64, 2)
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
