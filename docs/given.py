"""What the code of the pages takes for granted: a small model, its data, and a step of its training.

A page says so in a comment: `from given import loss, model`. Each page gets a process, and so a model, of its own.
"""

from collections import OrderedDict

import torch
from torch import nn

torch.manual_seed(0)

criterion = nn.MSELoss()
model = nn.Sequential(
    OrderedDict(
        [
            ("0", nn.Linear(8, 16)),
            ("1", nn.Tanh()),
            ("layer1", nn.Sequential(nn.Linear(16, 16), nn.Tanh())),
            ("head", nn.Linear(16, 1)),
        ]
    )
)
"""With the paths that the pages speak of: `0.weight`, `layer1.0.weight`."""
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = torch.randn(32, 8), torch.randn(32, 1)
batch, batches = (x, y), [(x, y)] * 3
loader = batches
delta = torch.zeros(8, requires_grad=True)
loss = criterion(model(x + delta), y)


def step(batch: tuple[torch.Tensor, torch.Tensor] = batch) -> torch.Tensor:
    """Do a training step, and return its loss."""
    x, y = batch
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


class MyFunction(torch.autograd.Function):
    """An exponential."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


layer, grad_out = nn.Linear(8, 4), torch.randn(32, 4)
mine = grad_out.T @ x
"""The gradient of the layer's weight, derived by hand."""
