"""A neural ODE fits a spiral, by an adaptive solver whose steps are recorded by autograd."""

import torch
from _digest import digest
from torch import nn
from torchdiffeq import odeint

torch.manual_seed(0)
time = torch.linspace(0, 2, 20)
true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
with torch.no_grad():
    truth = odeint(lambda t, y: y**3 @ true_A, torch.tensor([[2.0, 0.0]]), time, method="dopri5")


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))

    def forward(self, t, y):
        return self.net(y**3)


field = Field()
optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-3)
for _ in range(30):
    optimizer.zero_grad()
    loss = (odeint(field, truth[0], time, rtol=1e-3, atol=1e-4) - truth).abs().mean()
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(field))
