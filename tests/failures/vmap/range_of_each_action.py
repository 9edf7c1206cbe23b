# code: BS226
# variable: (action.abs() > 1.0).any()
# cause: assert not (action.abs() > 1.0).any()
# fix: put `assert not (actions.abs() > 1.0).any()` above line 25
import torch
from torch import nn
from torch.func import vmap


class Quality(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, state, action):
        assert not (action.abs() > 1.0).any()
        return self.layers(torch.cat([state, action])).squeeze(-1)


torch.manual_seed(0)
quality = Quality()
optimizer = torch.optim.Adam(quality.parameters())
for _ in range(2):
    states, actions = torch.randn(5, 4), torch.rand(5, 2)
    value = vmap(quality)(states, actions)
    optimizer.zero_grad()
    value.square().mean().backward()
    optimizer.step()
