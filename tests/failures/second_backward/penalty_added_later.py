# code: BS201
# variable: loss
# cause: loss = loss + 0.1 * critic(generator(noise)).pow(2).mean()
# fix: write `loss = 0.1
import torch
from torch import nn

torch.manual_seed(0)


def train(generator, critic, optimizer):
    noise = torch.randn(8, 3)
    loss = critic(generator(noise)).mean()
    optimizer.zero_grad()
    loss.backward()
    loss = loss + 0.1 * critic(generator(noise)).pow(2).mean()
    loss.backward()
    optimizer.step()


generator, critic = nn.Linear(3, 5), nn.Linear(5, 1)
train(generator, critic, torch.optim.Adam(generator.parameters()))
