# code: BS215
# variable: scaled_dot_product_attention
# cause: return F.scaled_dot_product_attention(q, k, v)
# fix: MATH
import torch
import torch.nn.functional as F
from torch import nn


class Energy(nn.Module):
    """An energy of a set of points; forces are its gradient."""

    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Linear(3, 3 * width)
        self.out = nn.Linear(width, 1)

    def attend(self, h):
        q, k, v = h.chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v)

    def forward(self, positions):
        return self.out(self.attend(self.embed(positions)[None, None])).sum()


model = Energy()
positions = torch.randn(5, 3, requires_grad=True)
(gradient,) = torch.autograd.grad(model(positions), positions, create_graph=True)
loss = (-gradient - torch.randn(5, 3)).square().mean()
loss.backward()
