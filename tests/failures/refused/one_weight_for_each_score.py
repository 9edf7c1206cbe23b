# code: BS200
# variable: grad_outputs=ones
# cause: return torch.autograd.grad(scores, x, grad_outputs=ones, create_graph=True)[0]
# fix: grad_outputs=torch.ones_like(scores)
import torch
from torch import nn


def slopes(critic, x, ones):
    scores = critic(x)
    return torch.autograd.grad(scores, x, grad_outputs=ones, create_graph=True)[0]


torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
for _ in range(5):
    x = torch.randn(16, 3, requires_grad=True)
    ones = torch.ones(3)
    penalty = (slopes(critic, x, ones).norm(dim=1) - 1).square().mean()
    optimizer.zero_grad()
    penalty.backward()
    optimizer.step()
