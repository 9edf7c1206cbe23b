# code: BS201
# variable: self.belief
# cause: self.belief.detach()
# fix: write `self.belief = self.belief.detach()`
import torch
from torch import nn


class Filter(nn.Module):
    """Corrects its belief by each new observation."""

    def __init__(self, size):
        super().__init__()
        self.gain = nn.Linear(2 * size, size)
        self.belief = torch.zeros(size)

    def forward(self, seen):
        self.belief.detach()
        gain = self.gain(torch.cat([self.belief, seen])).sigmoid()
        self.belief = self.belief + gain * (seen - self.belief)
        return self.belief


track = torch.randn(6, 4).cumsum(0)
model = Filter(4)
optimizer = torch.optim.Adam(model.parameters())
for now, then in zip(track, track[1:]):
    loss = (model(now) - then).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
