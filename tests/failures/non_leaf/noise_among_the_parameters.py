# code: BS206
# variable: net.cell.inner.weight_ih
# line: 36
# fix: torch.optim.RMSprop([p for p in net.parameters() if p.is_leaf], lr=0.01)
import torch
from torch import nn


class Noisy(nn.Module):
    def __init__(self, inner, name):
        super().__init__()
        self.inner, self.name = inner, name
        setattr(self, name + "_raw", nn.Parameter(getattr(inner, name).detach().clone()))
        inner._parameters[name] = getattr(self, name + "_raw") * torch.rand(())

    def forward(self, x, h):
        self.inner._parameters[self.name] = getattr(self, self.name + "_raw") * (0.9 + 0.2 * torch.rand(()))
        return self.inner(x, h)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Noisy(nn.RNNCell(3, 5), "weight_ih")
        self.last = nn.Linear(5, 1)

    def forward(self, words):
        h = torch.zeros(words.shape[1], 5)
        for word in words:
            h = self.cell(word, h)
        return self.last(h)


torch.manual_seed(4)
net = Reader()
optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
for step in range(3):
    words = torch.randn(4, 8, 3)
    optimizer.zero_grad()
    (net(words) - words.sum(0).sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
