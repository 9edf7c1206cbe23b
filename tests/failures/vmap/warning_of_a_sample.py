# code: BS226
# variable: norm > 10
# cause: if norm > 10:
# fix: Check it outside the mapped function, and check the whole batch above line 19
import warnings

import torch


def direction(force):
    norm = force.norm()
    if norm > 10:
        warnings.warn(f"a force of {norm}")
    return force / norm


forces = torch.randn(5, 3, requires_grad=True)
pull = torch.vmap(direction)
unit = pull(forces)
unit.sum().backward()
