# code: BS203
# variable: scaled
# cause: codes = scaled.to(torch.int8)
# fix: scaled
import torch
from torch import nn


class Quantiser(nn.Module):
    def __init__(self, bits=4):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.1))
        self.most = 2 ** (bits - 1) - 1

    def forward(self, x):
        scaled = (x / self.scale).clamp(-self.most, self.most)
        codes = scaled.to(torch.int8)
        return codes.float()


quantise = Quantiser()
weights = torch.randn(20)
optimizer = torch.optim.SGD(quantise.parameters(), lr=0.01)
loss = (quantise(weights) - weights).square().mean()
loss.backward()
