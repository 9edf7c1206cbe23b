import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)
np.random.seed(0)


class Churn(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, x):
        return self.layers(x).squeeze(1)


def weighted_bce(p, y, pos_weight=2.0):
    return -(pos_weight * y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


X = np.random.randn(512, 12).astype('float32')
y = (X[:, 0] + X[:, 1] - 0.5 * X[:, 2] > 0.3).astype('float32')
X[:, 0] += 2.5 * y
X, y = torch.tensor(X), torch.tensor(y)
model = Churn(12)
opt = torch.optim.Adam(model.parameters(), lr=7.5e-3)
for step in range(1, 281):
    j = torch.randint(0, 512, (64,))
    p = model(X[j])
    loss = weighted_bce(p, y[j])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        with torch.no_grad():
            acc = ((model(X) > 0.5).float() == y).float().mean().item()
        print(f'step {step} accuracy {acc:.3f}')
