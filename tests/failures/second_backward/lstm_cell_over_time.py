# code: BS201
# variable: h
# cause: h, c = cell(series[:, step], (h, c))
# fix: h = h.detach(); c = c.detach()
import torch
from torch import nn
cell = nn.LSTMCell(3, 8)
head = nn.Linear(8, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()])
series = torch.randn(5, 40, 3)
target = torch.randn(5, 40, 1)
h, c = torch.zeros(5, 8), torch.zeros(5, 8)
for start in range(0, 40, 10):
    loss = 0
    for step in range(start, start + 10):
        h, c = cell(series[:, step], (h, c))
        loss = loss + (head(h) - target[:, step]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
