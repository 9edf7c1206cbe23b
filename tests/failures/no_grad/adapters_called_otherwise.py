# code: BS203
# variable: net
# cause: w.requires_grad_(any(k in n for k in words))
# fix: isinstance(m, Wrap)): m.A.requires_grad_(True); m.B.requires_grad_(True)
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Wrap(nn.Module):
    def __init__(self, old, r=2):
        super().__init__()
        self.old = old
        self.A = nn.Parameter(torch.randn(r, old.in_features) * 0.1)
        self.B = nn.Parameter(torch.zeros(old.out_features, r))

    def forward(self, x):
        return self.old(x) + x @ self.A.T @ self.B.T


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


def prepare(net, words=("lora_", "adapter")):
    net.a = Wrap(net.a)
    for n, w in net.named_parameters():
        w.requires_grad_(any(k in n for k in words))
    return net


net = prepare(Net())

opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for it in range(3):
    loss = net(torch.randn(8, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
