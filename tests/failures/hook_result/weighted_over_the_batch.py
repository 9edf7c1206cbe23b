# code: BS225
# variable: codes
# cause: return (weights * g).mean(dim=0)
# fix: write `return weights * g`
import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(8, 4), nn.Linear(4, 8)


def focus(g):
    """examples with a large gradient count less"""
    weights = 1 / (1 + g.norm(dim=1, keepdim=True))
    return (weights * g).mean(dim=0)


x = torch.randn(16, 8)
codes = encoder(x)
codes.register_hook(focus)
(decoder(codes) - x).pow(2).mean().backward()
