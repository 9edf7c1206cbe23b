# code: BS224
# variable: scaler.unscale_(opt)
# cause: scaler.update()
# fix: only in the passes in which a step is due
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
done = 0
for i in range(12):
    loss = net(torch.randn(8, 4)).square().mean() / 3
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    done += 1
    if done % 3 == 0 and norm < 50:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    print(i, loss.item())
