# code: BS213
# variable: self.encoder.weight
# cause: w.grad.zero_()
# fix: if w.grad is not None: w.grad.zero_()
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.encoder, self.critic = nn.Linear(4, 3), nn.Linear(3, 1)
        self.weights = [*self.encoder.parameters(), *self.critic.parameters()]

    def clear(self):
        for w in self.weights:
            w.grad.zero_()

    def step(self, x):
        self.clear()
        loss = self.critic(self.encoder(x)).square().mean()
        loss.backward()
        with torch.no_grad():
            for w in self.weights:
                w -= 0.1 * w.grad
        return loss.item()


trainer = Trainer()
for _ in range(3):
    print(trainer.step(torch.randn(5, 4)))
