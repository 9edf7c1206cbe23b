# code: BS203
# variable: rows.argmax
# cause: row = rows.argmax(1).float()
# fix: the loss from rows and columns themselves
import torch
import torch.nn as nn

torch.manual_seed(0)
head = nn.Linear(4, 10)
opt = torch.optim.Adam(head.parameters())

for _ in range(2):
    rows, columns = head(torch.randn(3, 4)).chunk(2, dim=1)
    row = rows.argmax(1).float()
    column = columns.argmax(1).float()
    loss = nn.functional.l1_loss(row, torch.rand(3)) + nn.functional.l1_loss(column, torch.rand(3))
    opt.zero_grad()
    loss.backward()
    opt.step()
