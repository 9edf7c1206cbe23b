# code: BS201
# variable: w
# cause: w = w.clamp(min=0.1)
# fix: with torch.no_grad(): w.clamp_(min=0.1)
# or: w = w / w.norm()
import torch

w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for x in torch.randn(4, 8, 3):
    loss = (x @ w).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    w = w.clamp(min=0.1)
