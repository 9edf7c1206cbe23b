# code: BS209
# variable: h
# cause: h.add_(bias)
# fix: write h = h.add(bias)
import torch

bias = torch.nn.Parameter(torch.zeros(4))


@torch.no_grad()
def encode(x):
    return x.view(-1, 4)


h = encode(torch.randn(12))
h.add_(bias)
