# code: BS212
# variable: td_loss
# cause: td_loss = huber(q, target) * importance
# fix: td_loss = td_loss.mean()
import torch
from torch import nn

q_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
huber = nn.SmoothL1Loss(reduction="none")
opt = torch.optim.Adam(q_net.parameters(), lr=1e-3)
priorities = torch.rand(100)

for step in range(3):
    batch = torch.multinomial(priorities, 8)
    importance = (1 / (100 * priorities[batch] / priorities.sum())) ** 0.5
    q = q_net(torch.randn(8, 4)).max(1).values
    target = torch.rand(8)
    td_loss = huber(q, target) * importance
    opt.zero_grad()
    td_loss.backward()
    opt.step()
    priorities[batch] = td_loss.detach() + 1e-3
