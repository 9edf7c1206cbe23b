# code: BS206
# variable: weights
# cause: weights = [torch.randn(a, b, requires_grad=True) / a**0.5 for a, b in zip(sizes, sizes[1:])]
# fix: requires_grad_()
import torch

sizes = [4, 8, 2]
weights = [torch.randn(a, b, requires_grad=True) / a**0.5 for a, b in zip(sizes, sizes[1:])]
biases = [torch.zeros(b, requires_grad=True) for b in sizes[1:]]
optimizer = torch.optim.Adam(weights + biases, lr=1e-3)
