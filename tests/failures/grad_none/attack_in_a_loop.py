# code: BS213
# variable: delta
# cause: delta = (delta + step * delta.grad.sign()).clamp(-eps, eps)
# fix: .detach().requires_grad_()
import torch
from torch import nn
def pgd(model, x, y, eps=0.1, step=0.02, iters=3):
    delta = torch.zeros_like(x).uniform_(-eps, eps).requires_grad_()
    for _ in range(iters):
        loss = nn.functional.cross_entropy(model(x + delta), y)
        loss.backward()
        delta = (delta + step * delta.grad.sign()).clamp(-eps, eps)
    return (x + delta).detach()
net = nn.Linear(5, 3)
pgd(net, torch.randn(4, 5), torch.randint(0, 3, (4,)))
