# code: BS201
# variable: total
# cause: total = total + h.mean()
# fix: and add its value to total with .detach() or .item()
import torch

cell, optimizer = torch.nn.GRUCell(3, 4), None
h, total = torch.zeros(2, 4), torch.zeros(())
for _ in range(3):
    h.detach()
    h = cell(torch.randn(2, 3), h.detach())
    total = total + h.mean()
    total.backward()
