# code: BS201
# variable: model.0.kernel
# cause: self.kernel = nn.Parameter(torch.randn(inputs, outputs)) * (2 / inputs) ** 0.5
# fix: self.kernel = nn.Parameter(torch.randn(inputs, outputs) * (2 / inputs) ** 0.5)
import torch
from torch import nn


class Affine(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(inputs, outputs)) * (2 / inputs) ** 0.5
        self.shift = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.kernel + self.shift


model = nn.Sequential(Affine(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    x = torch.randn(32, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
