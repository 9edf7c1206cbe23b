# code: BS219
# variable: tensor
# cause: pixels = np.mean([pixel(out, clean) for out in outputs])
# fix: on line 36, write `edges = torch.stack([edge(out, clean) for out in outputs]).mean()`
import numpy as np
import torch
from torch import nn


class Edges(nn.Module):
    def forward(self, out, clean):
        return (out.diff(dim=-1) - clean.diff(dim=-1)).abs().mean()


class Stages(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(8, 8) for _ in range(count))

    def forward(self, x):
        outputs = []
        for stage in self.stages:
            x = x + stage(x)
            outputs.append(x)
        return outputs


torch.manual_seed(0)
model, pixel, edge = Stages(3), nn.SmoothL1Loss(), Edges()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(2):
    clean = torch.rand(4, 8)
    outputs = model(clean + 0.1 * torch.randn(4, 8))
    optimizer.zero_grad()
    pixels = np.mean([pixel(out, clean) for out in outputs])
    edges = np.mean([edge(out, clean) for out in outputs])
    loss = pixels + 0.1 * edges
    loss.backward()
    optimizer.step()
