# code: BS204
# variable: w
# cause: w = net(points)
# fix: w = net(torch.cat([x, y, t], dim=1))
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)


def residual(points):
    w = net(points)
    x = points[:, :1]
    y = points[:, 1:2]
    t = points[:, 2:]
    d = lambda f, v: torch.autograd.grad(f, v, torch.ones_like(f), create_graph=True)[0]
    w_x, w_y, w_t = d(w, x), d(w, y), d(w, t)
    return w_t - d(w_x, x) - d(w_y, y)


for k in range(30):
    points = torch.rand(100, 3).requires_grad_()
    loss = residual(points).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
