# code: BS201
# variable: verdict
# line: 20
# fix: put `verdict = self.judge(forged.detach())` above line 22
import torch
from torch import nn
from torch.nn import functional as F


class Duel(nn.Module):
    def __init__(self):
        super().__init__()
        self.forger = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
        self.judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def losses(self, real):
        noise = torch.randn(len(real), 3)
        forged = self.forger(noise)
        truth = self.judge(real)
        verdict = self.judge(forged)
        forging = F.softplus(-verdict).mean()
        judging = F.softplus(-truth).mean() + F.softplus(verdict).mean()
        return forging, judging


duel = Duel()
forger_optimizer = torch.optim.Adam(duel.forger.parameters(), lr=1e-3)
judge_optimizer = torch.optim.Adam(duel.judge.parameters(), lr=1e-3)
for real in torch.randn(2, 6, 4):
    forging, judging = duel.losses(real)
    forger_optimizer.zero_grad()
    forging.backward()
    forger_optimizer.step()
    judge_optimizer.zero_grad()
    judging.backward()
    judge_optimizer.step()
