# code: BS202
# variable: weighted was modified in place
# cause: weighted[k] = weighted[k] * gate[k]
# fix: put weighted_parts = [] above line 18
import torch
from torch import nn


class Weighting(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.gate = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, frames):
        frames = self.body(frames).relu()
        gate = self.gate(frames).sigmoid()
        weighted = frames
        for k in range(len(frames)):
            weighted[k] = weighted[k] * gate[k]
        return weighted.sum()


model = Weighting()
loss = model(torch.randn(3, 5, 4))
loss.backward()
