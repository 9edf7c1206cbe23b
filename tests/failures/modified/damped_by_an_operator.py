# code: BS202
# variable: string.speed
# cause: self.speed *= factor
# fix: self.speed = self.speed * factor
import torch
from torch import nn


class String:
    """A vibrating string: heights and speeds of its points."""

    def __init__(self, height):
        self.height, self.speed = height, torch.zeros_like(height)

    def __imul__(self, factor):
        self.speed *= factor
        return self

    def energy(self):
        return self.speed.square().sum() + self.height.diff().square().sum()


class Damping(nn.Module):
    def __init__(self):
        super().__init__()
        self.tension = nn.Parameter(torch.tensor(0.3))

    def forward(self, string):
        force = nn.functional.pad(string.height.diff().diff(), (1, 1))
        string.speed = string.speed + self.tension * force
        return 0.01 * string.energy()


torch.manual_seed(0)
damping = Damping()
optimizer = torch.optim.Adam(damping.parameters(), lr=0.01)
for _ in range(2):
    string, lost = String(torch.randn(12)), 0.0
    for _ in range(5):
        lost = lost + damping(string)
        string *= 0.9
        string.height = string.height + 0.1 * string.speed
    optimizer.zero_grad()
    lost.backward()
    optimizer.step()
