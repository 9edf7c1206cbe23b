# code: BS219
# variable: bounds
# cause: low, high = ordered(bounds.numpy())
# fix: compute it in PyTorch, from bounds on
import numpy as np
import torch
from torch import nn
from torch.distributions import Uniform


def ordered(pair):
    return np.sort(pair * 3.0)


class Bidder:
    """Bids between two limits that a network gives."""

    def __init__(self):
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def bid(self, state):
        bounds = self.net(state)
        low, high = ordered(bounds.numpy())
        limits = Uniform(torch.tensor(low), torch.tensor(high) + 0.5)
        offer = limits.sample()
        self.score = limits.log_prob(offer)
        return offer.item()

    def learn(self, gain):
        self.optimizer.zero_grad()
        (-gain * self.score).backward()
        self.optimizer.step()


torch.manual_seed(0)
bidder = Bidder()
for _ in range(5):
    offer = bidder.bid(torch.randn(2))
    bidder.learn(-abs(offer - 1.0))
