# code: BS203
# variable: u_x
# cause: u_x = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u))[0]
# fix: create_graph=True
import math

import torch
import torch.nn as nn


class PINN(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


def derivative(u, x):
    return torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True)[0]


def residual(model, x, t, nu=0.01):
    u = model(x, t)
    u_t = derivative(u, t)
    u_x = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u))[0]
    u_xx = derivative(u_x, x)
    return u_t + u * u_x - nu * u_xx


def collocation(n):
    x = (torch.rand(n, 1) * 2 - 1).requires_grad_()
    t = torch.rand(n, 1).requires_grad_()
    return x, t


def initial(n):
    x = torch.rand(n, 1) * 2 - 1
    return x, torch.zeros(n, 1), -torch.sin(math.pi * x)


def train(epochs=40):
    torch.manual_seed(0)
    model = PINN()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        x, t = collocation(128)
        xi, ti, ui = initial(64)
        loss_pde = residual(model, x, t).pow(2).mean()
        loss_ic = (model(xi, ti) - ui).pow(2).mean()
        loss = loss_pde + 10 * loss_ic
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 10 == 0:
            print(epoch, loss_pde.item(), loss_ic.item())
    return model


train()
