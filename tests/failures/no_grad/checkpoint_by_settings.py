# code: BS203
# variable: loss
# cause: h = checkpoint(layer, h, **self.settings)
# fix: net = Encoder({"use_reentrant": False, "preserve_rng_state": False})
# or: h = checkpoint(layer.forward, h, **self.settings)
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2))

    def forward(self, h):
        for layer in self.layers:
            h = checkpoint(layer, h, **self.settings)
        return h.mean()


net = Encoder({"use_reentrant": True, "preserve_rng_state": False})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(3, 4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
