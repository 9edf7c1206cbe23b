# code: BS204
# variable: points
# cause: seen = critic(jitter(batch))
# fix: seen = critic(jitter(points))
import torch
from torch import nn


def jitter(x):
    return x + 0.1 * torch.randn_like(x)


def smoothness(scores, inputs):
    total = torch.zeros(())
    for score, x in zip(scores, inputs):
        (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        total = total + slope.square().sum(dim=1).mean()
    return total


torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
maker = nn.Linear(2, 3)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
of_maker = torch.optim.Adam(maker.parameters(), lr=1e-3)
for batch in torch.randn(4, 8, 3):
    made = maker(torch.randn(8, 2)).detach().requires_grad_()
    points = batch.detach().clone().requires_grad_()
    imagined = critic(jitter(made))
    seen = critic(jitter(batch))
    loss = imagined.mean() - seen.mean() + smoothness([imagined, seen], [made, points])
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    of_maker.zero_grad()
    (-critic(maker(torch.randn(8, 2))).mean()).backward()
    of_maker.step()
