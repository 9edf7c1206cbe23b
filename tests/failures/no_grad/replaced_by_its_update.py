# code: BS203
# variable: loss
# cause: w = w - 0.1 * w.grad
# fix: w -= 0.1 * w.grad
# unsure: a leaf that is gone is known from the text alone
# or: w = w.detach() - 0.1 * w.grad
import torch

w = torch.randn(3, requires_grad=True)
x = torch.randn(5, 3)
for step in range(2):
    loss = (x @ w).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w = w - 0.1 * w.grad
