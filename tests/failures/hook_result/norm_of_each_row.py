# code: BS225
# variable: hook
# cause: return flat
# fix: return flat
import torch


def hook(g):
    flat = g.norm(dim=1)
    return flat


def scaled(g):
    return g * 3


x = torch.ones(5, 3, requires_grad=True)
w = x * 2
w.register_hook(scaled)
y = w.exp()
y.register_hook(hook)
y.sum().backward()
