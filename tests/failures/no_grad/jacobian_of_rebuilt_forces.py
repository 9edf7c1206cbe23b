# code: BS203
# variable: forces
# cause: return torch.tensor(rows)
# fix: torch.stack(rows)
import torch
from torch.autograd.functional import jacobian


def forces(positions):
    rows = []
    for i in range(len(positions)):
        others = positions[i] - positions
        rows.append((-others * others.square().sum(1, keepdim=True)).sum(0).sum())
    return torch.tensor(rows)


stiffness = jacobian(forces, torch.randn(4, 2), strict=True)
print(stiffness.shape)
