# code: BS213
# variable: last.grad
# cause: last = h
# fix: Call last.retain_grad() right after it is computed
import torch


def run(w):
    last = w
    for k in range(3):
        h = w * (k + 1)
        (h * 2).sum().backward()
        size = last.grad.norm()
        last = h


run(torch.ones(3, requires_grad=True))
