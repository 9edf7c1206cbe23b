"""A training loop without `zero_grad`.

What is wrong: `backward` adds to `.grad`, so each step follows the sum of all gradients since the beginning;
               the weights overshoot, and the loss oscillates instead of falling.
PyTorch says:  nothing
Fix:          `self.optimizer.zero_grad()` once per step, before `loss.backward()`.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, x, y, epochs):
        return [self.step(x, y) for _ in range(epochs)]


torch.manual_seed(0)
x = torch.randn(256, 8)
y = x @ torch.randn(8, 1)
losses = Trainer(nn.Linear(8, 1), lr=0.1).fit(x, y, epochs=40)

for epoch in range(0, 40, 8):
    print(f"epoch {epoch:2d}: loss {losses[epoch]:.3f}")
rises = sum(later > earlier for earlier, later in zip(losses, losses[1:]))
print(f"the loss rose in {rises} of {len(losses) - 1} steps")
