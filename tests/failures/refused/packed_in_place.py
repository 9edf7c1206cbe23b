# code: BS200
# variable: layer(x)
# cause: return kept.clamp_(-3, 3).to(torch.bfloat16)
# fix: write `return kept.clamp(-3, 3).to(torch.bfloat16)` on line 14
import torch
from torch import nn

torch.manual_seed(0)


class Smaller:
    @staticmethod
    def pack(kept):
        return kept.clamp_(-3, 3).to(torch.bfloat16)


layer, x = nn.Linear(3, 2), torch.randn(4, 3, requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(Smaller.pack, lambda kept: kept.float()):
    y = layer(x)
y.sum().backward()
