# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: Put `@torch.enable_grad()` above line 18
"""Adapting to each test batch, in an evaluation that is decorated and called in a block as well."""

import torch
from torch import nn

torch.manual_seed(0)


class Learner:
    def __init__(self):
        self.net = nn.Linear(5, 3)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def adapt(self, x):
        p = self.net(x).softmax(1)
        loss = -(p * p.log()).sum(1).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()

    @torch.no_grad()
    def evaluate(self, batches):
        right = 0
        for x, y in batches:
            self.adapt(x)
            right += (self.net(x).argmax(1) == y).sum().item()
        return right


def report(learner, batches):
    learner.net.eval()
    with torch.no_grad():
        return learner.evaluate(batches) / len(batches)


batches = [(torch.randn(8, 5), torch.randint(3, (8,))) for _ in range(2)]
print(report(Learner(), batches))
