# code: BS205
# variable: self.scale
# cause: self.scale *= 1 + 0.1 * torch.rand(3)
# fix: Create a new tensor: put new_scale
import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        if self.training:
            self.scale *= 1 + 0.1 * torch.rand(3)
        return x * self.scale


Scaled()(torch.ones(2, 3)).sum().backward()
