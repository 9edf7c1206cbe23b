# code: BS202
# variable: self.decode.weight | model.decode.weight
# cause: self.decode.weight.copy_(self.encode.weight.t())
# fix: below
import torch
from torch import nn


class TiedAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 3)
        self.decode = nn.Linear(3, 6)

    def tie(self):
        with torch.no_grad():
            self.decode.weight.copy_(self.encode.weight.t())

    def forward(self, x):
        self.tie()
        return self.decode(torch.sigmoid(self.encode(x)))


model = TiedAutoencoder()
a, b = torch.randn(4, 6), torch.randn(4, 6)
loss = (model(a) - a).square().mean() + (model(b) - b).square().mean()
loss.backward()
