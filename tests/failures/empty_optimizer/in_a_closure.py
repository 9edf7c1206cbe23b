# code: BS223
# variable: model.body
# cause: self.body = mlp(d, 12)
# fix: Write the function as an nn.Module
import torch
from torch import nn


def mlp(d, hidden):
    first, second = nn.Linear(d, hidden), nn.Linear(hidden, d)

    def run(x):
        return second(torch.relu(first(x)))
    return run


class Net(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.body = mlp(d, 12)

    def forward(self, x):
        return x + self.body(x)


torch.manual_seed(0)
model = Net(6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 6)
for step in range(3):
    loss = (model(x) - x.flip(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
