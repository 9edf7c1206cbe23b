# code: BS202
# variable: ema.weight
# cause: p.lerp_(q, 0.1)
# fix: update()
import torch
from torch import nn

net, ema = nn.Linear(2, 2), nn.Linear(2, 2)
x = torch.randn(4, 2)
target = ema(net(x))


def update():
    with torch.no_grad():
        for p, q in zip(ema.parameters(), net.parameters()):
            p.lerp_(q, 0.1)


update()
loss = ((net(x) - target) ** 2).mean()
loss.backward()
