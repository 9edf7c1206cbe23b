import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3))
        self.out = nn.Linear(64, 3)

    def forward(self, x):
        return self.out(self.body(x))


@torch.no_grad()
def evaluate(model, loader):
    was = model.training
    model.eval()
    losses, hits, n = [], 0, 0
    for x, y in loader:
        out = model(x)
        losses.append(F.cross_entropy(out, y))
        hits += (out.argmax(1) == y).sum().item()
        n += len(y)
    model.train(was)
    return torch.stack(losses).mean().item(), hits / n


torch.manual_seed(0)
W = torch.randn(20, 3)
x = torch.randn(900, 20)
y = (x @ W).argmax(1)
tr = DataLoader(TensorDataset(x[:700], y[:700]), 28, shuffle=True)
va = DataLoader(TensorDataset(x[700:], y[700:]), 100)
model = Net()
model.train()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
best, step = 0.0, 0
for epoch in range(6):
    for xb, yb in tr:
        opt.zero_grad()
        F.cross_entropy(model(xb), yb).backward()
        opt.step()
        step += 1
        if step % 30 == 0:
            vl, acc = evaluate(model, va)
            best = max(best, acc)
            print(f'step {step} val loss {vl:.4f} acc {acc:.3f} best {best:.3f}')
