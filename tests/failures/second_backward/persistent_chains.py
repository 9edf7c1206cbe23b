# code: BS201
# variable: buffer.chains
# cause: self.chains = z
# fix: self.chains = z.detach()
"""Energy-based model of two blobs, trained by persistent contrastive divergence."""

import torch
from torch import nn


class Energy(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class ReplayBuffer:
    def __init__(self, size):
        self.chains = torch.randn(size, 2)

    def sample(self, energy, steps=3, eps=0.05):
        z = self.chains.clone().requires_grad_()
        for _ in range(steps):
            g = torch.autograd.grad(energy(z).sum(), z, create_graph=True)[0]
            z = z - eps * g + 0.05 * torch.randn_like(z)
        self.chains = z
        return z


torch.manual_seed(0)
energy = Energy()
buffer = ReplayBuffer(16)
optim = torch.optim.Adam(energy.parameters(), lr=1e-3)
for step in range(3):
    real = torch.randn(16, 2) + torch.randint(0, 2, (16, 1)) * 3
    fake = buffer.sample(energy)
    e_real, e_fake = energy(real), energy(fake)
    loss = e_real.mean() - e_fake.mean() + 0.1 * (e_real**2 + e_fake**2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
