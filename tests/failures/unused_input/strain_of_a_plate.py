# code: BS204
# variable: h
# cause: slope_h = grad(deflection, h, one, create_graph=True)[0]
# fix: deflection = plate(torch.cat([w, h], dim=1))
import torch
from torch import nn
from torch.autograd import grad

torch.manual_seed(5)


def bending(plate, place):
    """The curvatures of a plate along its width and its height."""
    h = place[:, 1:]
    w = place[:, :1]
    deflection = plate(place)
    one = torch.ones_like(deflection)
    slope_h = grad(deflection, h, one, create_graph=True)[0]
    slope_w = grad(deflection, w, one, create_graph=True)[0]
    return grad(slope_h, h, one, create_graph=True)[0] + grad(slope_w, w, one, create_graph=True)[0]


plate = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(plate.parameters(), lr=1e-3)
for _ in range(3):
    place = torch.rand(20, 2, requires_grad=True)
    energy = (bending(plate, place) - 1).square().mean()
    optimizer.zero_grad()
    energy.backward()
    optimizer.step()
