# 1D Poisson problem  u'' = -pi^2 sin(pi x),  u(0)=u(1)=0
import math
import torch
import torch.nn as nn

torch.manual_seed(0)


class PINN(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        layers = [nn.Linear(1, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        layers.append(nn.Linear(width, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


def second_derivative(u, x):
    ones = torch.ones_like(u)
    du = torch.autograd.grad(u, x, ones, create_graph=True)[0]
    d2u = torch.autograd.grad(du, x, ones, retain_graph=True)[0]
    return d2u


model = PINN()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
xb = torch.tensor([[0.0], [1.0]])
ub = torch.zeros(2, 1)
for it in range(300):
    x = torch.rand(64, 1, requires_grad=True)
    u = model(x)
    f = -math.pi ** 2 * torch.sin(math.pi * x)
    loss_pde = ((second_derivative(u, x) - f) ** 2).mean()
    loss_bc = ((model(xb) - ub) ** 2).mean()
    loss = loss_bc + 0.01 * loss_pde
    opt.zero_grad()
    loss.backward()
    opt.step()
    if (it + 1) % 60 == 0:
        print(f'it {it + 1}: bc {loss_bc.item():.2e}  pde {loss_pde.item():.3f}')
xt = torch.linspace(0, 1, 101)[:, None]
with torch.no_grad():
    err = (model(xt) - torch.sin(math.pi * xt)).abs().max()
print('max error vs exact', err.item())
