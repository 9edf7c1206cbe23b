# code: BS202
# variable: scale
# cause: torch.clamp(scale, min=1e-3, out=scale)
# fix: scale = torch.clamp(scale, min=1e-3)
import torch
from torch import nn


class GaussianHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.loc = nn.Linear(width, 1)
        self.log_scale = nn.Linear(width, 1)

    def forward(self, h):
        return self.loc(h), torch.exp(self.log_scale(h))


def nll(loc, scale, y):
    return (torch.log(scale) + (y - loc) ** 2 / (2 * scale**2)).mean()


head = GaussianHead(4)
h, y = torch.randn(10, 4), torch.randn(10, 1)
loc, scale = head(h)
loss = nll(loc, scale, y)
with torch.no_grad():
    torch.clamp(scale, min=1e-3, out=scale)
print("smallest scale", f"{float(scale.detach().min()) > 0}")
loss.backward()
