# code: BS225
# variable: code
# cause: return grad.norm(), grad / grad.norm().clamp(min=limit)
# fix: write `return grad / grad.norm().clamp(min=limit)`
import functools

import torch
from torch import nn


def limited(limit, grad):
    return grad.norm(), grad / grad.norm().clamp(min=limit)


at_most_one = functools.partial(limited, 1.0)


def reconstruction(encoder, decoder, x):
    code = encoder(x)
    code.register_hook(at_most_one)
    return (decoder(code) - x).square().mean()


encoder, decoder = nn.Linear(8, 2), nn.Linear(2, 8)
reconstruction(encoder, decoder, torch.randn(5, 8)).backward()
