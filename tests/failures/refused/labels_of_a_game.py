# code: BS200
# variable: criterion(output, label)
# cause: label = torch.full((8,), real_label)
# fix: label = torch.full((8,), real_label, dtype=torch.float32)
import torch
from torch import nn

real_label, fake_label = 1, 0
painter = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6), nn.Tanh())
critic = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
criterion = nn.BCELoss()
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
of_painter = torch.optim.Adam(painter.parameters(), lr=1e-3)
for step in range(3):
    label = torch.full((8,), real_label)
    output = critic(torch.rand(8, 6))
    on_real = criterion(output, label)
    on_real.backward()
    drawn = painter(torch.randn(8, 4))
    label.fill_(fake_label)
    on_drawn = criterion(critic(drawn.detach()), label)
    on_drawn.backward()
    of_critic.step()
    of_critic.zero_grad()
    label.fill_(real_label)
    criterion(critic(drawn), label).backward()
    of_painter.step()
    of_painter.zero_grad()
