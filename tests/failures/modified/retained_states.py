# code: BS202
# variable: hidden
# cause: hidden = cell(x, hidden)
# fix: hidden = hidden.detach()
import torch
from torch import nn

cell = nn.RNNCell(3, 3)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
hidden = torch.zeros(1, 3)
for x in torch.randn(4, 1, 3):
    hidden = cell(x, hidden)
    loss = hidden.pow(2).sum()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
