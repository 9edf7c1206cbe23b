# code: BS223
# variable: self.fc
# cause: self.optimizer = torch.optim.Adam(self.parameters(), lr=0.001)
# fix: after the layers
import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.001)
        self.fc = nn.Linear(states, 32)
        self.out = nn.Linear(32, actions)


Actor(4, 2)
