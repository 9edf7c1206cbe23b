# code: BS201
# variable: fake
# cause: fake = generator(torch.randn(6, 3))
# fix: On line 14, write `score = critic(fake.detach())` and on line 15, write `gap = fake.detach().mean() - real.mean()`
import torch
from torch import nn

generator, critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Sequential(nn.Linear(4, 1), nn.Tanh())
generator_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)


def critic_step(real, fake):
    score = critic(fake)
    gap = fake.mean() - real.mean()
    weight = gap / fake.shape[0]
    loss = score.mean() - critic(real).mean() + weight * score.pow(2).mean()
    critic_optimizer.zero_grad()
    loss.backward()
    critic_optimizer.step()


for _ in range(2):
    fake = generator(torch.randn(6, 3))
    for _ in range(3):
        critic_step(torch.randn(6, 4), fake)
    generator_loss = -critic(fake).mean()
    generator_optimizer.zero_grad()
    generator_loss.backward()
    generator_optimizer.step()
