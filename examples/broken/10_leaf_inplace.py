"""Linear regression by hand: gradient descent without an optimizer.

What is wrong: `w -= lr * w.grad` changes a leaf in place while autograd is recording, so the update itself
               would become part of the graph.
PyTorch says:  a leaf Variable that requires grad is being used in an in-place operation
Fix:          do the updates inside `with torch.no_grad():`. (`w = w - lr * w.grad` won't help: `w` would no
               longer be a leaf, and its `.grad` stays None from then on.)
"""

import torch

torch.manual_seed(0)
x = torch.randn(100, 3)
y = x @ torch.tensor([2.0, -1.0, 0.5]) + 0.3

w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 0.1

for epoch in range(50):
    prediction = x @ w + b
    loss = ((prediction - y) ** 2).mean()
    loss.backward()
    w -= lr * w.grad
    b -= lr * b.grad
    w.grad.zero_()
    b.grad.zero_()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
