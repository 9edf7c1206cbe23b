# code: BS224
# variable: scaler.unscale_(opt)
# cause: scaler.unscale_(opt)
# fix: total_norm = torch.zeros(()) before the loop
import torch
from torch import nn

torch.manual_seed(0)

net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
acc = 4
norms = []
for i in range(12):
    loss = net(torch.randn(8, 4)).square().mean() / acc
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    total_norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    if (i + 1) % acc == 0:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    norms.append(total_norm.item())
    print(i, total_norm)
