# code: BS210
# variable: net
# cause: if self.training:
# fix: eval()
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Noisy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        x = self.linear(x)
        if self.training:
            x = x * torch.exp(0.1 * torch.randn_like(x))
        return torch.tanh(x)


net, head = Noisy(4), nn.Linear(4, 1)
x = torch.randn(3, 4, requires_grad=True)
loss = head(checkpoint(net, x, use_reentrant=False)).mean()
net.eval()
with torch.no_grad():
    validation = head(net(x)).mean().item()
loss.backward()
