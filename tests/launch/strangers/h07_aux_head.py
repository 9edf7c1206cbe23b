"""Auxiliary reconstruction head, used on every fifth batch only."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class AuxNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(16, 48), nn.ReLU())
        self.main = nn.Linear(48, 4)
        self.aux = nn.Linear(48, 16)

    def forward(self, x, with_aux=False):
        h = self.enc(x)
        return self.main(h), self.aux(h) if with_aux else None


W = torch.randn(16, 4)
net = AuxNet()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(1, 201):
    x = torch.randn(32, 16)
    y = (x @ W).argmax(1)
    out, rec = net(x, with_aux=step % 5 == 0)
    loss = F.cross_entropy(out, y)
    if rec is not None:
        loss = loss + 0.3 * F.mse_loss(rec, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(f'step {step} ce {F.cross_entropy(out, y).item():.3f} rec {F.mse_loss(rec, x).item():.3f}')
