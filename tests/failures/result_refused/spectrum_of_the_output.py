# code: BS219
# variable: out
# cause: spectrum = np.fft.rfft(out.numpy())
# fix: spectrum = torch.fft.rfft(out)
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)

net = nn.Linear(4, 16)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def spectral(out):
    spectrum = np.fft.rfft(out.numpy())
    return torch.tensor(np.abs(spectrum).mean())


for it in range(3):
    x, y = torch.randn(8, 4), torch.randn(8, 16)
    out = net(x)
    loss = F.mse_loss(out, y) + 0.1 * spectral(out)
    opt.zero_grad()
    loss.backward()
    opt.step()
