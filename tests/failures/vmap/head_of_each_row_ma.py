# code: BS226
# variable: length
# cause: return row[:length].sum()
# fix: Where the sizes differ
import torch
from torch.func import vmap


def total(row, length):
    return row[:length].sum()


rows = torch.randn(4, 7, requires_grad=True)
vmap(total)(rows, torch.tensor([3, 7, 1, 5])).sum().backward()
