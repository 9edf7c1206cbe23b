import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader

np.random.seed(0)
torch.manual_seed(0)


class Houses(Dataset):
    def __init__(self, n=800):
        self.x = np.random.randn(n, 9).astype(np.float32)
        w = np.random.randn(9).astype(np.float32)
        self.y = (self.x @ w + 0.3 * self.x[:, 0] ** 2).astype(np.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class PriceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(9, 64)
        self.b = nn.Linear(64, 32)
        self.c = nn.Linear(32, 1)

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


class LogCosh(nn.Module):
    def forward(self, pred, target):
        d = pred - target
        return torch.mean(d + nn.functional.softplus(-2.0 * d) - np.log(2.0))


ds = Houses()
dl = DataLoader(ds, batch_size=32, shuffle=True)
model, loss_fn = PriceNet(), LogCosh()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(10):
    tot = 0.0
    for xb, yb in dl:
        opt.zero_grad()
        out = model(xb)
        loss = loss_fn(out, yb)
        loss.backward()
        opt.step()
        tot += loss.item()
    if epoch % 3 == 0:
        print('epoch', epoch, 'loss', round(tot / len(dl), 4))
with torch.no_grad():
    p = model(torch.from_numpy(ds.x)).squeeze(1).numpy()
print('prediction std', p.std(), 'target std', ds.y.std(), 'R2', 1 - ((p - ds.y) ** 2).mean() / ds.y.var())
