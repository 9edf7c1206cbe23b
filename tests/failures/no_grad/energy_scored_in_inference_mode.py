# code: BS203
# variable: loss
# cause: @torch.inference_mode()
# fix: Write `@torch.no_grad()` on line 22: torch.enable_grad() on line 24 overrides that
"""An energy model whose scoring was decorated for speed; the gradients that it enables inside stay off."""

import torch
from torch import nn

torch.manual_seed(0)


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x).sum()


@torch.inference_mode()
def score(model, x):
    with torch.enable_grad():
        return model(x)


model = Energy()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    real, fake = torch.randn(8, 3), torch.rand(8, 3)
    loss = score(model, real) - score(model, fake)
    opt.zero_grad()
    loss.backward()
    opt.step()
