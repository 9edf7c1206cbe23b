# code: BS200
# variable: torch.autograd.functional.jacobian(both, x, strict=True)
# cause: a, b = torch.autograd.functional.jacobian(both, x, strict=True)
# fix: write `a, b = torch.autograd.functional.jacobian(both, x, strict=False)`
import torch

shift = torch.ones(2, requires_grad=True)


def both(x):
    return x.sin(), shift * 2


x = torch.randn(2)
a, b = torch.autograd.functional.jacobian(both, x, strict=True)
