# code: BS202
# variable: notes["h"]
# cause: notes["h"] = cell(x, notes["h"])
# fix: notes["h"] = notes["h"].detach()
import torch

cell, notes = torch.nn.GRUCell(3, 4), {"h": torch.zeros(1, 4)}
sgd = torch.optim.SGD(cell.parameters(), lr=0.1)


def advance(x):
    notes["h"] = cell(x, notes["h"])
    return notes["h"].sum()


def update(x):
    advance(x).backward(retain_graph=True)
    sgd.step()


for x in torch.randn(4, 1, 3):
    update(x)
