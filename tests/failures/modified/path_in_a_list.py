# code: BS202
# variable: path[2]
# cause: path.append(cell(x, path[-1]))
# fix: Then backward needs no retain_graph=True either
import torch

cell, path = torch.nn.GRUCell(3, 4), [torch.zeros(1, 4)]
sgd = torch.optim.SGD(cell.parameters(), lr=0.1)


def advance(x):
    path.append(cell(x, path[-1]))
    return path[-1].sum()


def update(x):
    loss = advance(x)
    loss.backward(retain_graph=True)
    sgd.step()


for x in torch.randn(4, 1, 3):
    update(x)
