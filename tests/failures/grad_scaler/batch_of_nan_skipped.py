# code: BS224
# variable: scaler.unscale_(optimizer)
# cause: continue
# fix: Put `scaler.update(); optimizer.zero_grad()` above line 26
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

for k in range(12):
    x = torch.randn(16, 8)
    y = x.sum(1, keepdim=True)
    if k == 5:
        y[3] = float("nan")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = net(x)
    loss = nn.functional.mse_loss(pred.float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    if not torch.isfinite(norm):
        print("skipping", k)
        continue
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
