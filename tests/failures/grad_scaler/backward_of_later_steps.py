# code: BS224
# variable: critic
# cause: if step > 4:
# fix: Step only an optimizer that has gradients
import torch
from torch import nn

torch.manual_seed(0)
net, critic = nn.Linear(4, 4), nn.Linear(4, 1)
fast = torch.optim.Adam(net.parameters())
slow = torch.optim.Adam(critic.parameters())
scaler = torch.amp.GradScaler("cpu")
for step in range(10):
    x = torch.randn(8, 4)
    made = net(x)
    loss = (made - x).square().mean()
    if step >= 5:
        loss = loss - 0.1 * critic(made).mean()
    fast.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(fast)
    slow.zero_grad()
    if step > 4:
        worth = critic(x).mean() - critic(made.detach()).mean()
        scaler.scale(worth).backward()
    scaler.step(slow)
    scaler.update()
