# code: BS225
# variable: self.mix
# cause: return gradient.clamp(-self.limit, self.limit)
# fix: one gradient for each input
import torch
from torch import nn


class Clipped(nn.Module):
    def __init__(self, limit=0.01):
        super().__init__()
        self.limit = limit
        self.project = nn.Linear(8, 8)
        self.mix = nn.Sequential(self.project, nn.Tanh())
        self.mix.register_full_backward_hook(self.clip)

    def clip(self, module, grad_input, grad_output):
        gradient = grad_input[0]
        return gradient.clamp(-self.limit, self.limit)

    def forward(self, x):
        return self.mix(x)


model = Clipped()
x = torch.randn(4, 8, requires_grad=True)
model(x).pow(2).mean().backward()
