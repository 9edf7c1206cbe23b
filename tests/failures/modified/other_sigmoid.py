# code: BS202
# variable: t
# cause: loss = compute(lambda t: t.zero_()) + other.sum()
# fix: created with .clone()
import torch


def compute(change):
    held = [torch.randn(3, requires_grad=True).sigmoid()]
    change(held[0])
    return held[0].sum()


other = torch.ones(3).sigmoid()
loss = compute(lambda t: t.zero_()) + other.sum()
other += 1
loss.backward()
