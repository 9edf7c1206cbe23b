# code: BS219
# variable: self.mix
# cause: torch.matmul(x, self.mix, out=self.scratch)
# fix: write `self.scratch = torch.matmul(x, self.mix)`
import torch
from torch import nn


class Mixer(nn.Module):
    """Mixes channels in memory that is allocated once."""

    def __init__(self, rows, width):
        super().__init__()
        self.mix = nn.Parameter(torch.eye(width) + 0.1 * torch.randn(width, width))
        self.scratch = torch.empty(rows, width)

    def forward(self, x):
        torch.matmul(x, self.mix, out=self.scratch)
        return torch.tanh(self.scratch)


torch.manual_seed(0)
mixer, head = Mixer(16, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*mixer.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(16, 4)
y = x.prod(dim=1, keepdim=True)
for _ in range(20):
    optimizer.zero_grad()
    loss = (head(mixer(x)) - y).square().mean()
    loss.backward()
    optimizer.step()
