# code: BS201
# variable: objective.smoothed.norms
# cause: self.norms[key] = self.decay * last + (1 - self.decay) * norm
# fix: .detach()
import torch
from torch import nn


class Smoothed:
    def __init__(self, decay=0.99):
        self.decay, self.norms = decay, {}

    def __call__(self, key, norm):
        last = self.norms.get(key, norm)
        self.norms[key] = self.decay * last + (1 - self.decay) * norm
        return self.norms[key]


class Balanced:
    def __init__(self):
        self.smoothed = Smoothed()

    def __call__(self, losses):
        return sum(loss / self.smoothed(key, loss) for key, loss in losses.items())


torch.manual_seed(0)
net, objective = nn.Linear(4, 2), Balanced()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    out = net(torch.randn(5, 4))
    loss = objective({"first": out[:, 0].square().mean(), "second": out[:, 1].abs().mean()})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
