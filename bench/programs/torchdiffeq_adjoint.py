"""A continuous normalizing flow, by the adjoint method: an ODE is solved inside of backward."""

import torch
from _digest import digest
from torch import nn
from torchdiffeq import odeint_adjoint

torch.manual_seed(0)


class CNF(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, states):
        z = states[0]
        with torch.set_grad_enabled(True):
            z.requires_grad_(True)
            dz = self.net(torch.cat([z, t.expand(len(z), 1)], dim=1))
            trace = sum(torch.autograd.grad(dz[:, i].sum(), z, create_graph=True)[0][:, i] for i in range(2))
        return dz, -trace.view(-1, 1)


flow = CNF()
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
times = torch.tensor([1.0, 0.0])
prior = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
for _ in range(12):
    optimizer.zero_grad()
    x = torch.randn(64, 2) * 0.3 + torch.tensor([1.0, -1.0])
    z, change = odeint_adjoint(flow, (x, torch.zeros(64, 1)), times, rtol=1e-3, atol=1e-3, method="dopri5")
    loss = -(prior.log_prob(z[-1]) - change[-1].view(-1)).mean()
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(flow))
