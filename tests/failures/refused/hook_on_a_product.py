# code: BS200
# variable: layer.weight.register_post_accumulate_grad_hook(note)
# cause: layer.weight.register_post_accumulate_grad_hook(note)
# fix: for p in layer.parameters(): p.register_post_accumulate_grad_hook(note)
import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.randn(3, 3))

    @property
    def weight(self):
        return self.raw.tril()

    def forward(self, x):
        return x @ self.weight


def note(p):
    print(p.grad.norm())


layer = Masked()
layer.weight.register_post_accumulate_grad_hook(note)
layer(torch.randn(2, 3)).sum().backward()
