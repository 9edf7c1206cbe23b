# code: BS201
# variable: self.weight
# cause: self.weight[drawn] = error.abs() + 0.01
# fix: self.weight[drawn] = (error.abs() + 0.01).detach()
import torch
from torch import nn


class Memory:
    def __init__(self, seen):
        self.seen, self.weight = seen, torch.ones(len(seen))

    def correct(self, drawn, error):
        self.weight[drawn] = error.abs() + 0.01


torch.manual_seed(0)
memory, net = Memory(torch.randn(20, 2)), nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    drawn = torch.randperm(20)[:8]
    error = net(memory.seen[drawn]).squeeze(1) - 1
    loss = (error.square() / memory.weight[drawn]).mean()
    memory.correct(drawn, error)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
