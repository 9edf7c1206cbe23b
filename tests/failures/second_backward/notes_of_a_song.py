# code: BS201
# variable: hidden
# cause: hidden = cell(note, hidden)
# fix: put `hidden = hidden.detach()` below line 20
# or: hidden = torch.tanh(cell(note, hidden))
import torch
from torch import nn

torch.manual_seed(0)
cell = nn.GRUCell(4, 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)

for song in torch.randn(3, 12, 2, 4):
    hidden = torch.zeros(2, 8)
    optimizer.zero_grad()
    for note in song:
        hidden = cell(note, hidden)
        loss = (head(hidden) - note.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
    optimizer.step()
    print(loss.item())
