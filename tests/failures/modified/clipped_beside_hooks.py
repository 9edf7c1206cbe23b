# code: BS202
# variable: net.4.weight
# cause: p.clamp_(-0.1, 0.1)
# fix: clip()
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}


def arrived(p):
    optimizers[p].step()


for p in net.parameters():
    p.register_post_accumulate_grad_hook(arrived)


def clip():
    with torch.no_grad():
        for p in net.parameters():
            p.clamp_(-0.1, 0.1)


score = net(torch.randn(7, 4, requires_grad=True)).mean()
clip()
score.backward()
