# code: BS209
# variable: scale
# cause: both.mul_(0.5)
# fix: both = both.mul(0.5)
# or: both *= 0.5
import torch
from torch import nn


def modulate(x, scale, shift):
    return torch.tanh(x * scale + shift)


class Styled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.style = nn.Linear(3, 2 * width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])

    def forward(self, x, style):
        both = self.style(style)
        parts = both.chunk(2, dim=1)
        for layer in self.layers:
            x = modulate(layer(x), parts[0], parts[1])
            both.mul_(0.5)
        return x


torch.manual_seed(0)
net = Styled(4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4)
    loss = (net(x, torch.randn(8, 3)) - x.flip(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
