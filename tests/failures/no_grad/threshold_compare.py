# code: BS203
# variable: probability
# cause: hard = (probability > 0.5).float()
# fix: probability
import torch
from torch import nn

model = nn.Sequential(nn.Linear(5, 1), nn.Sigmoid())
dice = lambda a, b: 1 - 2 * (a * b).sum() / (a.sum() + b.sum() + 1e-6)
mask = torch.randint(0, 2, (8, 1)).float()


def step(x):
    probability = model(x)
    hard = (probability > 0.5).float()
    return dice(hard, mask)


loss = step(torch.randn(8, 5))
loss.backward()
