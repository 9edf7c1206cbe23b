# code: BS223
# variable: model.scale
# cause: self.factors, self.bias = self.split(saved["weight"]), saved["bias"]
# fix: nn.ParameterList(self.split(saved["weight"])), nn.Parameter(saved["bias"])
# fix: self.scale = nn.Parameter(torch.ones(4))
import torch
from torch import nn


class LowRank(nn.Module):
    def __init__(self, saved, rank):
        super().__init__()
        self.rank = rank
        self.factors, self.bias = self.split(saved["weight"]), saved["bias"]
        self.scale = torch.ones(4)

    def split(self, weight):
        u, s, v = torch.linalg.svd(weight, full_matrices=False)
        return [u[:, : self.rank] * s[: self.rank], v[: self.rank]]

    def forward(self, x):
        left, right = self.factors
        return (x @ right.T @ left.T + self.bias) * self.scale


torch.manual_seed(0)
model = LowRank(nn.Linear(6, 4).state_dict(), rank=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 6)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
