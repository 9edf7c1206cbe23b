# code: BS203
# variable: energy
# cause: @torch.inference_mode()
# fix: `@torch.no_grad()`
import torch
from torch import nn

torch.manual_seed(0)
potential = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))


def forces(positions):
    with torch.enable_grad():
        positions = positions.detach().clone().requires_grad_()
        energy = potential(positions).sum()
        return -torch.autograd.grad(energy, positions)[0]


@torch.inference_mode()
def validate(batches, wanted):
    errors = [(forces(x) - y).abs().mean() for x, y in zip(batches, wanted)]
    return sum(errors) / len(errors)


print(validate(torch.randn(2, 5, 3), torch.randn(2, 5, 3)).item())
