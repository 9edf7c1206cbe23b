# code: BS200
# variable: net.read.weight
# cause: optimizer = torch.optim.SGD([slow, fast], lr=0.1)
# fix: out of group 0, which keeps 2 other parameters
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Embedding(7, 4)
        self.mix = nn.Linear(4, 4)
        self.write = nn.Linear(4, 7, bias=False)
        self.write.weight = self.read.weight


net = Net()
slow = {"params": [*net.read.parameters(), *net.mix.parameters()], "lr": 0.01}
fast = {"params": net.write.parameters()}
optimizer = torch.optim.SGD([slow, fast], lr=0.1)
