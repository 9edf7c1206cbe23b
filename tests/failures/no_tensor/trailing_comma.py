# code: BS222
# variable: loss
# cause: loss = ((prediction - y) ** 2).mean(),
# fix: loss = ((prediction - y) ** 2).mean()
import torch

w = torch.zeros(3, requires_grad=True)
x, y = torch.randn(10, 3), torch.randn(10)
for step in range(3):
    prediction = x @ w
    loss = ((prediction - y) ** 2).mean(),
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
