# code: BS205
# variable: table
# cause: table[i] = i / 2
# fix: with torch.no_grad():
import torch

table = torch.zeros(3, requires_grad=True)
for i in range(3):
    table[i] = i / 2
