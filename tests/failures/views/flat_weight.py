# code: BS209
# variable: flat
# cause: flat.zero_()
# fix: Put the change under torch.no_grad() too
import torch

w = torch.randn(4, 4, requires_grad=True)
with torch.no_grad():
    flat = w.view(-1)
flat.zero_()
