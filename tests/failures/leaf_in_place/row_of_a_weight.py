# code: BS205
# variable: w
# cause: row *= 2
# fix: new_row = row * 2
import torch

w = torch.randn(3, 3, requires_grad=True)
row = w[0]
row *= 2
