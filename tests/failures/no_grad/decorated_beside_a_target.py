# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: Remove @torch.no_grad() from features
import torch
from torch import nn

torch.manual_seed(0)

net, head = nn.Linear(4, 4), nn.Linear(4, 2)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)


@torch.no_grad()
def features(x):
    return net(x)


for it in range(3):
    x = torch.randn(6, 4)
    with torch.no_grad():
        target = net(x)
    f = features(x)
    loss = (f - 2 * target).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
