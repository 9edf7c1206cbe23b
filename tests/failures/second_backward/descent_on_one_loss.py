# code: BS201
# variable: loss
# cause: loss = (torch.randn(2, 3) * w + b).square().sum()
# fix: Compute loss inside the loop, from
# varied: w.data -= 0.1 * w.grad
# or: w.data -= 0.1 * w.grad\nb.data -= 0.1 * b.grad
# or: print(end="")
import torch

w, b = torch.ones(3, requires_grad=True), torch.zeros(3, requires_grad=True)
loss = (torch.randn(2, 3) * w + b).square().sum()
for step in range(3):
    loss.backward()
    w.data -= 0.1 * w.grad
