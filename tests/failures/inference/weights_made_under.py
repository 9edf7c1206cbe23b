# code: BS214
# variable: net.0.weight | net.2.weight
# cause: @torch.inference_mode()
# fix: outside
import torch
from torch import nn


@torch.inference_mode()
def load(path=None):
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


net = load()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(3, 4, requires_grad=True)
loss = net(x).mean()
loss.backward()
optimizer.step()
