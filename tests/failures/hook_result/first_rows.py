# code: BS225
# variable: y
# cause: return lambda g: g[:k]
# fix: keep g.norm()
import torch


def made(k):
    return lambda g: g[:k]


def scaled(g):
    return g * 3


x = torch.ones(5, 3, requires_grad=True)
w = x * 2
w.register_hook(scaled)
y = w.exp()
y.register_hook(made(4))
y.sum().backward()
