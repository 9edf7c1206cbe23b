"""Two phases: only the new head learns at first (early layers have learning rate 0), then all of it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.ModuleDict({
    'early': nn.Sequential(nn.Linear(10, 32), nn.Tanh()),
    'mid': nn.Sequential(nn.Linear(32, 32), nn.Tanh()),
    'head': nn.Linear(32, 1),
})
opt = torch.optim.Adam([
    {'params': net['early'].parameters(), 'lr': 0.0, 'name': 'early'},
    {'params': net['mid'].parameters(), 'lr': 0.0, 'name': 'mid'},
    {'params': net['head'].parameters(), 'lr': 1e-2, 'name': 'head'},
])
PHASE2 = 80


def forward(x):
    for part in ('early', 'mid', 'head'):
        x = net[part](x)
    return x


for step in range(240):
    if step == PHASE2:
        for g in opt.param_groups:
            g['lr'] = 2e-3
    x = torch.randn(48, 10)
    y = torch.cos(x[:, :1] * 2) + 0.5 * x[:, 1:2]
    loss = F.mse_loss(forward(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 39:
        print(f"step {step + 1} loss {loss.item():.4f} lrs {[g['lr'] for g in opt.param_groups]}")
