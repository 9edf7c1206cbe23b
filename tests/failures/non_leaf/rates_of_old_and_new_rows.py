# code: BS206
# variable: model.table
# cause: old, new = self.table[:4], self.table[4:]
# fix: a leaf of its own
import torch
import torch.nn as nn


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(6, 4))

    def groups(self):
        old, new = self.table[:4], self.table[4:]
        return [{"params": old, "lr": 1e-4}, {"params": new, "lr": 1e-2}]

    def forward(self, i):
        return self.table[i]


model = Tokens()
opt = torch.optim.Adam(model.groups())
loss = model(torch.tensor([0, 5])).pow(2).sum()
loss.backward()
opt.step()
