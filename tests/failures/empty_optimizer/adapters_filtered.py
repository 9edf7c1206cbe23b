# code: BS223
# variable: net
# cause: q.requires_grad = "lora" in n
# fix: isinstance(m, Wrap)): m.A.requires_grad_(True)
import torch
from torch import nn

torch.manual_seed(0)


class Wrap(nn.Module):
    def __init__(self, old, r=2):
        super().__init__()
        self.old = old
        self.A = nn.Parameter(torch.randn(r, old.in_features) * 0.1)
        self.B = nn.Parameter(torch.zeros(old.out_features, r))

    def forward(self, x):
        return self.old(x) + x @ self.A.T @ self.B.T


net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
net[0] = Wrap(net[0])
for n, q in net.named_parameters():
    q.requires_grad = "lora" in n
opt = torch.optim.Adam([q for q in net.parameters() if q.requires_grad], lr=1e-2)
for it in range(3):
    loss = net(torch.randn(8, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
