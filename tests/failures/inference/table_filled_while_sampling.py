# code: BS214
# variable: model.table
# cause: with torch.inference_mode():
# fix: no_grad
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim, self.table = dim, None
        self.head = nn.Linear(dim, 5)

    def angles(self, length):
        if self.table is None:
            self.table = torch.sin(torch.arange(16.0).unsqueeze(1) / (1 + torch.arange(float(self.dim))))
        return self.table[:length]

    def forward(self, x):
        return self.head(x * self.angles(x.shape[1]))


words = nn.Embedding(5, 8)
model = Positions(8)
with torch.inference_mode():
    first = model(words(torch.randint(0, 5, (2, 6)))).argmax(-1)

x = words(torch.randint(0, 5, (2, 7)))
model(x).square().mean().backward()
