# code: BS204
# variable: driver.brake.weight
# cause: gradients = torch.autograd.grad(steering, parameters, retain_graph=True)
# fix: retain_graph=True, allow_unused=True)`
"""How far two tasks agree on a shared trunk, by the angle between their gradients."""

import torch
from torch import nn


class Driver(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(6, 12)
        self.steer = nn.Linear(12, 1)
        self.brake = nn.Linear(12, 1)

    def forward(self, seen):
        shared = torch.relu(self.trunk(seen))
        return self.steer(shared), self.brake(shared)


def agreement(driver, seen, angle, pressure):
    parameters = list(driver.parameters())
    angles, pressures = driver(seen)
    steering = (angles - angle).pow(2).mean()
    gradients = torch.autograd.grad(steering, parameters, retain_graph=True)
    braking = (pressures - pressure).pow(2).mean()
    others = torch.autograd.grad(braking, parameters)
    return sum((one * other).sum() for one, other in zip(gradients, others))


seen = torch.randn(16, 6)
print(agreement(Driver(), seen, torch.randn(16, 1), torch.rand(16, 1)))
