# code: BS203
# variable: gap
# cause: mine = self.gradients(one)
# fix: yours = self.gradients(other, keep=True)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Matcher:
    def __init__(self, model):
        self.model = model

    def gradients(self, batch, keep=False):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        return torch.autograd.grad(loss, list(self.model.parameters()), create_graph=keep)

    def distance(self, one, other):
        mine = self.gradients(one)
        yours = self.gradients(other)
        return sum((a - b).pow(2).sum() for a, b in zip(mine, yours))


torch.manual_seed(0)
matcher = Matcher(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)))
optimizer = torch.optim.SGD(matcher.model.parameters(), lr=1e-3)
for step in range(4):
    one, other = [(torch.randn(8, 4) + k, torch.randint(0, 3, (8,))) for k in range(2)]
    gap = matcher.distance(one, other)
    optimizer.zero_grad()
    gap.backward()
    optimizer.step()
    print(step, gap.item())
