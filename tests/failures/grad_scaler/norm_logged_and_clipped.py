# code: BS224
# variable: scaler.unscale_(optimizer)
# cause: scaler.unscale_(optimizer)  # the true norm
# fix: before line 31
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
log = []


def note_norm():
    scaler.unscale_(optimizer)  # the true norm
    log.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())


def clip(limit):
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), limit)


for step in range(6):
    x = torch.randn(32, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = (out.float() - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    note_norm()
    clip(1.0)
    scaler.step(optimizer)
    scaler.update()
