# code: BS202
# variable: critic.2.weight
# cause: p.div_(p.norm().clamp(min=1.0))
# fix: below
import torch
from torch import nn


def lipschitz(net):
    for p in net.parameters():
        if p.dim() > 1:
            with torch.no_grad():
                p.div_(p.norm().clamp(min=1.0))


critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
for _ in range(2):
    real, fake = torch.randn(8, 3), torch.randn(8, 3)
    loss = critic(fake).mean() - critic(real).mean()
    lipschitz(critic)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
