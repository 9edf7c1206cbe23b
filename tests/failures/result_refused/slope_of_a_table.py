# code: BS219
# variable: u
# cause: values = u.cpu().numpy()
# fix: slope = 1 - torch.tanh(values) ** 2
import numpy as np
import torch
from torch import nn


class Squash(torch.autograd.Function):
    """tanh, as the simulator computes it."""

    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return torch.as_tensor(np.tanh(u.numpy()))

    @staticmethod
    def backward(ctx, upstream):
        u = ctx.saved_tensors[0]
        values = u.cpu().numpy()
        slope = 1 - np.tanh(values) ** 2
        return upstream * torch.from_numpy(slope)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(1, 16), nn.Linear(16, 1)

    def forward(self, t):
        return self.outer(Squash.apply(self.inner(t)))


torch.manual_seed(0)
field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=1e-2)
for step in range(5):
    t = torch.rand(32, 1, requires_grad=True)
    height = field(t)
    speed = torch.autograd.grad(height.sum(), t, create_graph=True)[0]
    residual = (speed + height).square().mean()
    optimizer.zero_grad()
    residual.backward()
    optimizer.step()
