# code: BS204
# variable: latents
# cause: latents = latents.clone().detach().requires_grad_(True)
# fix: above line 37
"""Latents are guided by the attention of a network, which a store keeps; all of it under no_grad but for one block."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, store):
        super().__init__()
        self.store = store
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        self.store.append(torch.softmax(self.inner(x), -1))
        return self.store[-1]


class Pipeline:
    def __init__(self):
        self.store = []
        self.net = Net(self.store)

    def update(self, latents, loss):
        return latents - torch.autograd.grad(loss.requires_grad_(True), [latents])[0]

    @torch.no_grad()
    def sample(self):
        latents = torch.randn(3, 4)
        for t in range(2):
            with torch.enable_grad():
                scaled = latents / (1 + t)
                latents = latents.clone().detach().requires_grad_(True)
                self.store.clear()
                self.net(scaled)
                loss = self.store[0][:, 0].mean()
                latents = self.update(latents, loss)
            latents = latents - self.net(latents)
        return latents


Pipeline().sample()
