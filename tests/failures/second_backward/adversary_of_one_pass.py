# code: BS201
# variable: d_loss.backward
# cause: g_loss.backward()
# fix: put `out = discriminator(fake)` below line 21
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)

generator, discriminator = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 1)
g_optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
d_optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.1)
for step in range(2):
    fake = generator(x)
    out = discriminator(fake)
    d_loss = out.pow(2).mean()
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()
    g_loss = -out.mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
