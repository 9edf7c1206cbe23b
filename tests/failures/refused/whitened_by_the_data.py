# code: BS200
# variable: getattr(model, names[k]).weight
# cause: getattr(model, names[k]).weight = basis.T
# fix: with torch.no_grad(): getattr(model, names[k]).weight.copy_(basis.T)
import torch
from torch import nn


class Whitened(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.depth = depth
        for k in range(depth):
            setattr(self, f"rotate{k}", nn.Linear(width, width))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for k in range(self.depth):
            x = torch.tanh(getattr(self, f"rotate{k}")(x))
        return self.head(x)


def start_from(model, data):
    names = [name for name, _ in model.named_children() if name.startswith("rotate")]
    for k in range(len(names)):
        _, basis = torch.linalg.eigh(torch.cov(data.T))
        getattr(model, names[k]).weight = basis.T
        getattr(model, names[k]).bias = -(data @ basis).mean(0)
        data = torch.tanh(data @ basis)


torch.manual_seed(0)
data = torch.randn(64, 5)
net = Whitened(5, 2)
start_from(net, data)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(data).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
