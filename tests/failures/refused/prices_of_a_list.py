# code: BS200
# variable: loss.backward()
# cause: loss = nn.functional.huber_loss(guess, prices)
# fix: prices.to(guess.dtype)
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
numbers = np.random.default_rng(0)


def batch(size=16):
    prices, level = [], 1.0
    rooms = torch.rand(size, 3)
    for row in rooms.tolist():
        level = 0.9 * level + sum(row)
        prices.append(level)
    prices = np.log(prices) + numbers.normal(size=size) * 0.01
    return rooms, prices


model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    prices, offset = [], 0.1
    rooms, prices = batch()
    prices = torch.from_numpy(prices - offset)
    guess = model(rooms).squeeze(-1)
    loss = nn.functional.huber_loss(guess, prices)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
