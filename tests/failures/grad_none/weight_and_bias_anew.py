# code: BS213
# variable: w.grad
# cause: w, b = w - 0.1 * w.grad, b - 0.1 * b.grad
# fix: Make it a leaf by setting requires_grad last
import torch

w, b = torch.ones(3, requires_grad=True), torch.zeros(1, requires_grad=True)
for step in range(2):
    (w * 2 + b).sum().backward()
    w, b = w - 0.1 * w.grad, b - 0.1 * b.grad
