# code: BS200
# variable: loss.backward()
# cause: return kept
# fix: Return a tensor from back()
import torch
from torch import nn


def away(tensor):
    return (tensor.device, tensor.cpu()) if tensor.requires_grad else tensor


def back(kept):
    if isinstance(kept, torch.Tensor):
        return kept.contiguous()
    return kept


net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
with torch.autograd.graph.saved_tensors_hooks(away, back):
    loss = net(torch.randn(10, 4)).exp().mean()
loss.backward()
