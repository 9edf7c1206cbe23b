# code: BS203
# variable: out
# cause: return np.mean([np.abs(out.detach().cpu().numpy() - y.numpy()).sum() for out, y in zip(outputs, targets)])
# fix: PyTorch
import numpy as np
import torch
from torch import nn


def mean_error(outputs, targets):
    return np.mean([np.abs(out.detach().cpu().numpy() - y.numpy()).sum() for out, y in zip(outputs, targets)])


net = nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
x, y = torch.randn(3, 5, 4), torch.randn(3, 5, 2)
loss = torch.as_tensor(mean_error([net(each) for each in x], y))
optimizer.zero_grad()
loss.backward()
