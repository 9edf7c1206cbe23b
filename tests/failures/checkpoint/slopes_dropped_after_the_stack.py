# code: BS210
# variable: model.mixers
# cause: if key not in self.kept:
# fix: Change it before the first run
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Slopes:
    """Normalized weights of the mixers, each computed once in a pass."""

    def __init__(self):
        self.kept = {}

    def of(self, key, weight):
        if key not in self.kept:
            self.kept[key] = torch.softmax(weight, dim=1)
        return self.kept[key]


class Mixer(nn.Module):
    def __init__(self, width, slopes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))
        self.slopes = slopes

    def forward(self, x):
        return torch.tanh(x @ self.slopes.of(id(self), self.weight))


class Refining(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.slopes = Slopes()
        self.embed = nn.Linear(3, width)
        self.mixers = nn.Sequential(Mixer(width, self.slopes), nn.LayerNorm(width), Mixer(width, self.slopes))
        self.read_out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.mixers(self.embed(x))
        x = checkpoint(self.mixers, x, use_reentrant=False)
        self.slopes.kept.clear()
        return self.read_out(x)


torch.manual_seed(0)
model = Refining()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(3):
    x = torch.randn(8, 3)
    loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
