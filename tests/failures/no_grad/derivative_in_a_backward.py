# code: BS203
# variable: (again * grad_output).sum()
# cause: again = layer(x)
# fix: Put lines 22 to 23 inside a `with torch.enable_grad():` block
import torch
from torch import nn


class Reversible(torch.autograd.Function):
    """Keeps only the output: the input is computed again in the backward."""

    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        y = x + layer(x)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        layer, x = ctx.layer, ctx.saved_tensors[0].detach().requires_grad_()
        again = layer(x)
        (dx,) = torch.autograd.grad((again * grad_output).sum(), (x,))
        return grad_output + dx, None


class Stack(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.stem = nn.Linear(5, 8)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(depth))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = Reversible.apply(x, layer)
        return self.head(x)


model = Stack()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(16, 5)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
