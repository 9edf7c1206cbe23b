# code: BS200
# variable: Found dtype Double but expected Float
# cause: for features, price in loader:
# fix: price = price.float()
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

rng = np.random.default_rng(0)
houses = [(rng.normal(size=4).astype(np.float32), rng.normal()) for _ in range(24)]
loader = DataLoader(houses, batch_size=8)


def smooth(prediction, wanted, beta=0.5):
    return nn.functional.huber_loss(prediction, wanted, delta=beta)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x, y):
        return smooth(self.layers(x).flatten(), y)


model = Regressor()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for features, price in loader:
    loss = model(features, price)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
