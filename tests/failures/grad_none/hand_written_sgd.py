# code: BS213
# variable: w
# cause: w = torch.randn(3, 1, requires_grad=True) * 0.1
# fix: requires_grad_()
import torch

x, y = torch.randn(10, 3), torch.randn(10, 1)
lr = 0.1
w = torch.randn(3, 1, requires_grad=True) * 0.1
b = torch.zeros(1, requires_grad=True)
for _ in range(5):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        b -= lr * b.grad
        w -= lr * w.grad
        b.grad.zero_()
        w.grad.zero_()
