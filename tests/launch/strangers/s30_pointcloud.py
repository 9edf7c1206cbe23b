"""Shape classification of small point clouds, PointNet style."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
BATCH = POINTS = 32


def clouds(n):
    y = torch.randint(0, 3, (n,))
    v = F.normalize(torch.randn(n, POINTS, 3), dim=-1)
    scale = torch.tensor([[1.0, 1.0, 1.0], [1.8, 0.5, 0.5], [1.4, 1.4, 0.1]])[y]
    return v * scale[:, None] + 0.05 * torch.randn(n, POINTS, 3), y


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64), nn.ReLU())
        self.cls = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, p):
        h = self.point(p)
        return self.cls(h.mean(dim=0))


model = PointNet()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
x, y = clouds(640)
for epoch in range(10):
    perm = torch.randperm(640)
    tot = hit = 0
    for i in range(0, 640, BATCH):
        j = perm[i:i + BATCH]
        out = model(x[j])
        loss = F.cross_entropy(out, y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
        hit += (out.argmax(1) == y[j]).sum().item()
    print(f'epoch {epoch} loss {tot / 20:.3f} acc {hit / 640:.3f}')
