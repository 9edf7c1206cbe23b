# code: BS222
# variable: error
# cause: error = Margin(scores, wanted, reduce="sum")
# fix: write `error = Margin(reduce="sum")(scores, wanted)`
import torch
from torch import nn


class Margin(nn.Module):
    def __init__(self, below=0.1, above=0.9, reduce="mean"):
        super().__init__()
        self.below, self.above, self.reduce = below, above, reduce

    def forward(self, scores, wanted):
        near = (self.above - scores).relu() * wanted
        far = (scores - self.below).relu() * (1 - wanted)
        return getattr(near + far, self.reduce)()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 3), nn.Sigmoid())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(10, 6)
    wanted = (x[:, :3] > 0).float()
    scores = model(x)
    error = Margin(scores, wanted, reduce="sum")
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
