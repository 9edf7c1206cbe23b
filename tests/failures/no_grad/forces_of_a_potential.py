# code: BS203
# variable: energy
# cause: @torch.no_grad()
# fix: torch.enable_grad()
import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.radial = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, positions):
        apart = (positions[:, None] - positions).square().sum(-1)
        return self.radial(apart[..., None]).sum()


def forces(potential, positions):
    positions = positions.detach().requires_grad_()
    energy = potential(positions)
    return -torch.autograd.grad(energy, positions, create_graph=potential.training)[0]


@torch.no_grad()
def mean_error(potential, frames, wanted):
    potential.eval()
    errors = [(forces(potential, frame) - force).abs().mean() for frame, force in zip(frames, wanted)]
    potential.train()
    return torch.stack(errors).mean().item()


torch.manual_seed(0)
potential = Potential()
optimizer = torch.optim.Adam(potential.parameters(), lr=1e-3)
frames, wanted = torch.randn(6, 5, 3), torch.randn(6, 5, 3)
for epoch in range(2):
    for frame, force in zip(frames, wanted):
        loss = (forces(potential, frame) - force).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), mean_error(potential, frames, wanted))
