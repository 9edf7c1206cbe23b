# code: BS205
# variable: self.scale
# cause: self.scale.mul_(0.1)
# fix: with torch.no_grad():
import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))
        self.scale.mul_(0.1)


Scaled()
