# code: BS200
# variable: Found dtype Double but expected Float
# cause: for some, theirs in loader:
# fix: theirs = theirs.float()
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Standardized(nn.Module):
    """A robust loss in units of the spread of the ages."""

    def __init__(self, mean, spread):
        super().__init__()
        self.mean, self.spread = mean, spread

    def forward(self, predicted, ages):
        return nn.functional.huber_loss(predicted, (ages - self.mean) / self.spread)


table = np.random.default_rng(1).normal(40, 9, size=(48, 4))
rows, ages = torch.tensor(table[:, :3], dtype=torch.float32), torch.from_numpy(table[:, 3])
loader = DataLoader(TensorDataset(rows / 40, ages), batch_size=12)
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))
criterion = Standardized(40.0, 9.0)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for some, theirs in loader:
    loss = criterion(net(some), theirs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
