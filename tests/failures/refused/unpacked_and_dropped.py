# code: BS200
# variable: objective.backward()
# cause: kept.to(torch.float32)
# fix: write `return kept.to(torch.float32)`
import torch
from torch import nn

torch.manual_seed(0)
moved = []


def to_half(kept):
    moved.append(kept.numel())
    return (kept.half(),)


def to_float(kept):
    (kept,) = kept
    kept.to(torch.float32)


encoder = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 1))
with torch.autograd.graph.saved_tensors_hooks(to_half, to_float):
    objective = encoder(torch.randn(5, 6)).pow(2).mean()
objective.backward()
