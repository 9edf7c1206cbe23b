# code: BS203
# variable: loss
# cause: w = w.detach()
# fix: with torch.no_grad(): w.clamp_(min=0.1)
# unsure: a leaf that is gone is known from the text alone
import torch

w = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD([w], 0.1)
for x in torch.randn(3, 8, 3):
    loss = (x @ w).pow(2).mean()
    loss.backward()
    optimizer.step()
    w = w.clamp(min=0.1)
    w = w.detach()
