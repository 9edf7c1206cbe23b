# code: BS212
# variable: loss
# cause: loss = (gap ** 2 * weight).mean()
# fix: `loss = (gap.abs() ** 2 * abs(weight)).mean()`
# or: loss = (gap ** 2 * weight + weight).mean()
import torch
from torch import nn

torch.manual_seed(0)


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, x):
        size, phase = self.body(x).unbind(-1)
        return size * torch.exp(1j * phase)


wave = Wave()
optimizer = torch.optim.Adam(wave.parameters(), lr=1e-2)
direction = torch.tensor([1.0, 2.0])
for _ in range(3):
    x = torch.rand(32, 2)
    gap = wave(x) - torch.exp(1j * (x @ direction))
    weight = 1 - 2j
    loss = (gap ** 2 * weight).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
