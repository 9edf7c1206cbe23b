# code: BS203
# variable: observe
# cause: heading = state[2].detach()
# fix: heading = state[2]
import torch
from torch.autograd.functional import jacobian


class Filter:
    def __init__(self, beacon):
        self.beacon = beacon

    def observe(self, state):
        distance = (state[:2] - self.beacon).norm()
        heading = state[2].detach()
        return distance, heading * 2

    def update(self, state):
        rows = jacobian(self.observe, state, strict=True)
        return torch.stack(rows)


print(Filter(torch.tensor([1.0, 2.0])).update(torch.randn(3)))
