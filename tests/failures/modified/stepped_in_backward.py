# code: BS202
# variable: model.0.inner.weight
# cause: def arrived(weight):
# fix: def arrived(weight, optimizer=optimizer):
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner, self.outer = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x):
        return x + self.outer(torch.tanh(self.inner(x)))


def fused(model, rate):
    """One optimizer for each parameter, which steps as soon as its gradient is there."""
    optimizers = []
    for parameter in reversed([*model.parameters()]):
        optimizer = torch.optim.Adam([parameter], lr=rate)

        def arrived(weight):
            optimizer.step()
            weight.grad.zero_()

        parameter.register_post_accumulate_grad_hook(arrived)
        optimizers.append(optimizer)
    return optimizers


torch.manual_seed(0)
model = nn.Sequential(Mixer(8), Mixer(8))
fused(model, 1e-3)
for _ in range(3):
    x = torch.randn(16, 8, requires_grad=True)
    error = (model(x) - x.roll(1, 1)).square().mean()
    error.backward()
