# code: BS202
# variable: critic_opt.step() changed critic.2.weight
# line: 20
# fix: run lines 17 and 18 again below line 20
import torch
from torch import nn

generator = nn.Linear(2, 3)
critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
critic_opt = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
opt = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")

for _ in range(2):
    critic_opt.zero_grad()
    fake = generator(torch.randn(4, 2))
    on_real = critic(torch.randn(4, 3))
    on_fake = critic(fake.detach())
    scaler.scale((on_real - on_fake.mean()).relu().mean()).backward(retain_graph=True)
    scaler.step(critic_opt)
    scaler.update()
    critic_opt.zero_grad()
    loss = (1 + on_fake - on_real.mean()).relu().mean()
    scaler.scale(loss).backward()
    scaler.step(critic_opt)
    scaler.update()
