# code: BS202
# variable: t
# cause: compute(lambda t: t.zero_()).backward()
# fix: created with .clone()
import torch


def compute(change):
    held = [torch.randn(3, requires_grad=True).sigmoid()]
    change(held[0])
    return held[0].sum()


compute(lambda t: t.zero_()).backward()
