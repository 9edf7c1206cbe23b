# code: BS201
# variable: sample
# line: 14
# fix: on line 16, write `critic_loss = critic(sample.detach()).mean() - critic(real).mean()`
import torch
from torch import nn

maker, critic = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
maker_optimizer = torch.optim.RMSprop(maker.parameters(), lr=1e-3)
critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)


def both(real):
    sample = maker(torch.randn(len(real), 3)).tanh()
    maker_loss = -critic(sample).mean()
    critic_loss = critic(sample).mean() - critic(real).mean()
    return {"maker": maker_loss, "critic": critic_loss}


for real in torch.randn(2, 6, 4):
    losses = both(real)
    maker_optimizer.zero_grad()
    losses["maker"].backward()
    maker_optimizer.step()
    critic_optimizer.zero_grad()
    losses["critic"].backward()
    critic_optimizer.step()
