# code: BS202
# variable: a
# cause: a.neg_()
# fix: Write a = a.neg()
# varied: loss = compute(torch.randn(3, requires_grad=True), True)
# or: loss = compute(torch.randn(3, requires_grad=True), False)
import torch


def compute(x, flag):
    a, b = x * 2, x * 3
    out = (a**2).sum() + (b**2).sum()
    if flag:
        a.neg_()
    else:
        b += 1
    return out


loss = compute(torch.randn(3, requires_grad=True), True)
loss.backward()
