# code: BS201
# variable: vars(self)["avg"]
# cause: vars(self)["avg"] = 0.9 * vars(self)["avg"] + 0.1 * value
# fix: vars(self)["avg"].detach()
"""A smoothed loss. What the model stores in each pass before it is read, its kl, carries nothing."""

import torch
from torch import nn
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 4), nn.Linear(2, 6)
    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        self.kl = (mu.square() + logvar.exp() - logvar - 1).mean()
        return self.dec(mu + torch.randn_like(mu) * (logvar / 2).exp())
    def loss(self, x):
        out = self(x)
        return (out - x).square().mean() + self.kl
class Smoother:
    def __init__(self):
        vars(self)["avg"] = torch.zeros(())
    def __call__(self, value):
        vars(self)["avg"] = 0.9 * vars(self)["avg"] + 0.1 * value
        return vars(self)["avg"]
vae, smooth = VAE(), Smoother()
opt = torch.optim.Adam(vae.parameters())
for _ in range(3):
    loss = smooth(vae.loss(torch.randn(8, 6)))
    opt.zero_grad()
    loss.backward()
    opt.step()
