# code: BS201
# variable: notes["memory"]
# cause: notes["memory"] = cell(x, notes["memory"])
# fix: notes["memory"].detach()
import torch
from torch import nn

torch.manual_seed(0)
cell, gate, head = nn.GRUCell(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *gate.parameters(), *head.parameters()], lr=0.1)
x, notes = torch.randn(5, 4), {"memory": torch.zeros(5, 4)}


def visit(number):
    notes["memory"] = cell(x, notes["memory"])
    if number == 0:
        notes["scale"] = torch.sigmoid(gate(x))
        loss = head(notes["memory"]).square().mean()
        loss.backward()
        return
    loss = (head(notes["memory"]) * notes["scale"]).square().mean()
    loss.backward()


for number in range(2):
    visit(number)
