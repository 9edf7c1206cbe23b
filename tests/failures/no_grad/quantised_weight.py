# code: BS203
# variable: loss
# cause: return (w / scale).round().int(), scale
# fix: with the gradient of
import torch
from torch import nn
def quantize(w, bits):
    scale = w.abs().max() / (2 ** (bits - 1) - 1)
    return (w / scale).round().int(), scale
class QLinear(nn.Linear):
    bits = 4
    def forward(self, x):
        q, scale = quantize(self.weight, self.bits)
        return x @ (q.float().t() * scale.detach()) 
net = nn.Sequential(QLinear(4, 8, bias=False), nn.ReLU(), QLinear(8, 2, bias=False))
opt = torch.optim.Adam(net.parameters())
def step(x, y, criterion=nn.functional.cross_entropy):
    loss = criterion(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
step(torch.randn(6, 4), torch.randint(0, 2, (6,)))
