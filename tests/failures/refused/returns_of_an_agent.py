# code: BS200
# variable: Found dtype Double but expected Float
# cause: return F.huber_loss(self.value(states).squeeze(1), self.returns)
# fix: self.returns.to(torch.float32)
import torch
import torch.nn.functional as F
from torch import nn


class Agent:
    def __init__(self):
        self.value = nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.value.parameters())
        self.returns = torch.tensor([0.5, 1, 2], dtype=torch.float64)

    def loss(self, states):
        return F.huber_loss(self.value(states).squeeze(1), self.returns)

    def learn(self, states):
        loss = self.loss(states) + 0.1 * self.value.weight.square().sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


Agent().learn(torch.randn(3, 4))
