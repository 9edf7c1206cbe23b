# code: BS201
# variable: slope
# cause: slope = gradient(y, t)
# fix: closure()
import torch
from torch import nn

net = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))


def gradient(of, at):
    return torch.autograd.grad(of.sum(), at, create_graph=True)[0]


def fit(rate):
    t = torch.linspace(0, 2, 30)[:, None].requires_grad_()
    y = net(t)
    slope = gradient(y, t)
    lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=5)

    def closure():
        lbfgs.zero_grad()
        loss = (slope + rate * net(t)).pow(2).mean() + (net(torch.zeros(1, 1)) - 1).pow(2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        lbfgs.step(closure)


fit(0.7)
