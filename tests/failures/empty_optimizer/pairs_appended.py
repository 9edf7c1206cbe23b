# code: BS223
# variable: model.blocks
# cause: self.blocks = []
# fix: self.blocks.append(nn.ModuleList([nn.LayerNorm(d), nn.Linear(d, d)]))
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, d, depth):
        super().__init__()
        self.blocks = []
        for _ in range(depth):
            self.blocks.append((nn.LayerNorm(d), nn.Linear(d, d)))

    def forward(self, x):
        for norm, linear in self.blocks:
            x = x + linear(norm(x))
        return x


torch.manual_seed(0)
model = Residual(6, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 6)
for step in range(3):
    loss = (model(x) - x.flip(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
