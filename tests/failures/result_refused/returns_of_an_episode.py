# code: BS219
# variable: self.values
# cause: return np.std([r - v for r, v in zip(self.rewards, self.values)])
# fix: zip(self.rewards, [each.detach() for each in self.values])
import numpy as np
import torch
from torch import nn


class Episode:
    def __init__(self):
        self.rewards, self.values = [], []

    def add(self, reward, value):
        self.rewards.append(reward)
        self.values.append(value)

    def surprise(self):
        return np.std([r - v for r, v in zip(self.rewards, self.values)])


torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
episode = Episode()
for state in torch.randn(5, 2):
    episode.add(float(state.sum()), critic(state).squeeze())
loss = (torch.stack(episode.values) - torch.tensor(episode.rewards)).square().mean()
loss.backward()
print(loss.item(), episode.surprise())
