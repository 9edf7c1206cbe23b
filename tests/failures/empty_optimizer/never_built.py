# code: BS223
# variable: self.first
# cause: self.first = nn.Linear(*self.sizes[:2])
# fix: Call chain.build()
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes


class Chain(Base):
    def build(self):
        self.act = nn.Tanh()
        self.first = nn.Linear(*self.sizes[:2])
        self.last = nn.Linear(*self.sizes[1:])

    def forward(self, x):
        return self.last(self.act(self.first(x)))


torch.manual_seed(0)
chain = Chain([4, 8, 1])
opt = torch.optim.SGD(chain.parameters(), lr=0.1)
for _ in range(2):
    loss = chain(torch.randn(6, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
