# code: BS203
# variable: nll
# cause: model.scale.register_forward_hook(lambda module, given, out: out.detach().clamp(min=1e-3))
# fix: it must return it with its graph, without out.detach()
import torch
from torch import nn


class Gaussian(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(2, 1)

    def forward(self, x):
        return self.scale(x)


model = Gaussian()
model.scale.register_forward_hook(lambda module, given, out: out.detach().clamp(min=1e-3))
optimizer = torch.optim.Adam(model.parameters())
for step in range(2):
    x = torch.randn(8, 2)
    nll = -torch.distributions.Normal(0.0, model(x)).log_prob(x[:, :1]).mean()
    optimizer.zero_grad()
    nll.backward()
    optimizer.step()
