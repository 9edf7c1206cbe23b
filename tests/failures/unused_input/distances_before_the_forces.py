# code: BS204
# variable: batch["r"] was computed from it before
# cause: batch["pos"].requires_grad_()
# fix: above line 14: on line 28
import torch
from torch import nn

net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))


def load(n):
    batch = {"pos": torch.randn(n, 3)}
    batch["first"] = torch.arange(n - 1)
    at = batch["pos"]
    batch["r"] = (at[1:] - at[batch["first"]]).norm(dim=1, keepdim=True)
    return batch


def energy(batch):
    return net(batch["r"]).sum()


def forces(value, positions):
    return -torch.autograd.grad(value, positions)[0]


batch = load(5)
batch["pos"].requires_grad_()
print(forces(energy(batch), batch["pos"]).norm())
