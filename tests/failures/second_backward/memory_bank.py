# code: BS201
# variable: self.queue | learner.queue | negatives
# cause: self.queue.append(z2)
# fix: detach
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn


class ContrastiveLearner:
    def __init__(self, dim=8, size=3, temperature=0.1):
        self.encoder = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, dim))
        self.queue = deque(maxlen=size)
        self.temperature = temperature
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), lr=0.03, momentum=0.9)

    def info_nce(self, z1, z2):
        negatives = torch.cat(list(self.queue)) if self.queue else torch.zeros(0, z1.shape[1])
        candidates = torch.cat([z2, negatives])
        logits = F.normalize(z1, dim=1) @ F.normalize(candidates, dim=1).T / self.temperature
        return F.cross_entropy(logits, torch.arange(len(z1)))

    def step(self, view1, view2):
        z1, z2 = self.encoder(view1), self.encoder(view2)
        loss = self.info_nce(z1, z2)
        self.queue.append(z2)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


learner = ContrastiveLearner()
for _ in range(3):
    x = torch.randn(6, 10)
    learner.step(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
