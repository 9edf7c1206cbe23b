# code: BS202
# variable: h
# cause: h = update(h, x)
# fix: h = h.detach()
import torch

cell = torch.nn.RNNCell(3, 3)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)


def update(hidden, x):
    hidden = cell(x, hidden)
    optimizer.zero_grad()
    hidden.sum().backward(retain_graph=True)
    optimizer.step()
    return hidden


h = torch.zeros(1, 3)
for x in torch.randn(4, 1, 3):
    h = update(h, x)
