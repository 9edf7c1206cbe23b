"""BYOL: online net, predictor and a momentum target."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, o))


class BYOL(nn.Module):
    def __init__(self, tau=0.97):
        super().__init__()
        self.online = mlp(30, 64, 16)
        self.predictor = mlp(16, 32, 16)
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad = False
        self.tau = tau

    @torch.no_grad()
    def momentum_update(self):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.mul_(self.tau).add_(p, alpha=1 - self.tau)

    @torch.no_grad()
    def project_target(self, v):
        return self.target(v)

    def forward(self, v1, v2):
        p1, p2 = self.predictor(self.online(v1)), self.predictor(self.online(v2))
        z1, z2 = self.project_target(v1), self.project_target(v2)
        return 2 - F.cosine_similarity(p1, z2).mean() - F.cosine_similarity(p2, z1).mean()


torch.manual_seed(0)
centers = torch.randn(12, 30)
model = BYOL()
opt = torch.optim.Adam(list(model.online.parameters()) + list(model.predictor.parameters()), lr=2e-3)
for step in range(1, 181):
    x = centers[torch.randint(0, 12, (48,))] + 0.4 * torch.randn(48, 30)
    loss = model(x + 0.2 * torch.randn_like(x), x + 0.2 * torch.randn_like(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
    model.momentum_update()
    if step % 45 == 0:
        print(f'step {step} loss {loss.item():.4f}')
