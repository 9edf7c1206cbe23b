# code: BS200
# variable: weight
# cause: return delta.mm(weight), delta.t().mm(x)
# fix: custom_bwd
import torch
from torch import nn


class SiluLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        z = x.mm(weight.t())
        ctx.save_for_backward(x, weight, z)
        return nn.functional.silu(z)

    @staticmethod
    def backward(ctx, grad):
        x, weight, z = ctx.saved_tensors
        s = torch.sigmoid(z)
        delta = grad * (s + z * s * (1 - s))
        return delta.mm(weight), delta.t().mm(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x):
        return SiluLinear.apply(x, self.weight)


model = nn.Sequential(nn.Linear(5, 8), Block(8), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(16, 5)).float().pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
