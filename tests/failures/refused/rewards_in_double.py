# code: BS200
# variable: Found dtype Double but expected Float
# cause: error = lossfn(value, target)
# fix: error = lossfn(value, target.to(value.dtype))
from collections import deque

import numpy as np
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
lossfn = nn.HuberLoss()
memory = deque(maxlen=50)
for k in range(50):
    memory.append((np.full(3, 0.1 * k, dtype=np.float32), float(k % 5)))


def batch(size):
    states, rewards = zip(*list(memory)[:size])
    return torch.from_numpy(np.stack(states)), torch.from_numpy(np.array(rewards))


for _ in range(3):
    states, rewards = batch(16)
    value = critic(states).squeeze(1)
    target = rewards + 0.9 * value.detach()
    error = lossfn(value, target)
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
