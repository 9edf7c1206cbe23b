# code: BS203
# variable: prediction
# cause: filtered = np.convolve(prediction.detach().numpy().ravel(), kernel, mode="same")
# fix: PyTorch
import numpy as np
import torch
from torch import nn

kernel = np.ones(3) / 3


def smooth(prediction):
    filtered = np.convolve(prediction.detach().numpy().ravel(), kernel, mode="same")
    return torch.from_numpy(filtered).float().view_as(prediction)


net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
x, y = torch.randn(20, 2), torch.randn(20, 1)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(smooth(net(x)), y)
    loss.backward()
    return loss


optimizer.step(closure)
