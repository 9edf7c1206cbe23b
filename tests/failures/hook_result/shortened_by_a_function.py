# code: BS225
# variable: hook
# cause: return short(g * 2)
# fix: pass
import torch


def short(g):
    return g[:2]


def hook(g):
    return short(g * 2)


def scaled(g):
    return g * 3


x = torch.ones(5, 3, requires_grad=True)
w = x * 2
w.register_hook(scaled)
y = w.exp()
y.register_hook(hook)
y.sum().backward()
