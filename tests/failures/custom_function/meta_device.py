# code: BS208
# variable: Offload
# cause: return torch.empty_like(grad, device="meta")
# fix: device
import torch


class Offload(torch.autograd.Function):
    """Keeps nothing; written for a dry run on the meta device."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return torch.empty_like(grad, device="meta")


x = torch.randn(3, requires_grad=True)
Offload.apply(x).sum().backward()
