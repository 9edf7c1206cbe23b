# code: BS200
# fix: goal.float()
import numpy as np
import torch
from torch import nn


def scaled_loss(guess, goal):
    return nn.functional.huber_loss(guess * 0.5, goal * 0.5)


torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    data = np.random.default_rng(0).normal(size=(8, 4))
    x, goal = torch.from_numpy(data[:, :3].astype(np.float32)), torch.from_numpy(data[:, 3:])
    loss = scaled_loss(net(x), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
