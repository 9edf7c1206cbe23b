# code: BS206
# variable: model.inner.scale
# cause: optimizer = torch.optim.SGD([model.inner.scale, model.inner.shift], lr=0.1)
# fix: b.is_leaf
import torch
from torch import nn


class Affine(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("scale", torch.ones(size, requires_grad=True))
        self.register_buffer("shift", torch.zeros(size, requires_grad=True))

    def forward(self, x):
        return x * self.scale + self.shift


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Affine(4)

    def forward(self, x):
        return self.inner(x)


model = Model()
model.to(torch.float64)
optimizer = torch.optim.SGD([model.inner.scale, model.inner.shift], lr=0.1)
loss = model(torch.randn(3, 4, dtype=torch.float64)).square().mean()
loss.backward()
optimizer.step()
