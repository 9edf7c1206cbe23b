# code: BS209
# variable: net.stages.1.relu
# cause: return self.relu(self.norm(self.mix(x)))
# fix: nn.ELU()
import torch
from torch import nn


class Block(nn.Module):
    nonlinearity = nn.ELU(inplace=True)

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.relu = Block.nonlinearity

    def forward(self, x):
        return self.relu(self.norm(self.mix(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(Block(6) for _ in range(2))
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.head(x)


torch.manual_seed(0)
net, seen = Net(), {}
other = nn.Sequential(nn.Linear(3, 3), nn.ELU(inplace=True))
net.stages[1].norm.register_full_backward_hook(lambda module, given, got: seen.update(norm=got[0].norm()))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = nn.functional.cross_entropy(net(torch.randn(5, 6)), torch.randint(0, 2, (5,)))
loss.backward()
optimizer.step()
