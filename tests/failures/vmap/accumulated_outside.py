# code: BS226
# variable: self.seen
# cause: self.seen.copy_(hidden)
# fix: Return the values
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        hidden = torch.tanh(self.layer(x)).detach()
        self.seen.copy_(hidden)
        return self.layer(x) + self.seen


memory = Memory()
torch.vmap(memory)(torch.randn(3, 4))
