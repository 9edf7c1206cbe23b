# code: BS203
# variable: potential
# cause: with torch.no_grad():
# fix: x.detach().requires_grad_()
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))


def force(x):
    potential = net(x)
    (slope,) = torch.autograd.grad(potential.sum(), x, create_graph=True)
    return -slope


class Descent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *weights):
        ctx.weights = weights
        with torch.no_grad():
            for _ in range(4):
                x = x + 0.1 * force(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            start = x.detach().requires_grad_()
            end = start + 0.4 * force(start)
            _, *found = torch.autograd.grad(end, (start, *ctx.weights), grad, allow_unused=True)
        return (None, *found)


optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = Descent.apply(torch.randn(16, 2), *net.parameters()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
