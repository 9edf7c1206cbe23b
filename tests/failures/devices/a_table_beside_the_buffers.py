# code: BS228
# variable: self.table
# cause: self.table = torch.linspace(0, 1, dim)
# fix: self.register_buffer("table", torch.linspace(0, 1, dim))
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.project = nn.Linear(dim, dim)
        self.table = torch.linspace(0, 1, dim)

    def forward(self, x):
        return self.project(x) * self.table


with torch.device("meta"):
    model = Scaled()
weights = Scaled().state_dict()
model.to_empty(device="cpu")
model.load_state_dict(weights)
loss = model(torch.randn(4, 8)).pow(2).mean()
loss.backward()
