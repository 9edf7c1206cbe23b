# code: BS205
# variable: model.weight
# cause: p -= 0.1 * p.grad
# fix: with torch.no_grad(): p -= 0.1 * p.grad
# or: p.sub_(p.grad)
# or: p.add_(p.grad, alpha=-0.1)
# or: p[:] = p - p.grad
import torch

model = torch.nn.Linear(2, 2)
model(torch.randn(3, 2)).sum().backward()
for p in model.parameters():
    p -= 0.1 * p.grad
