# code: BS226
# variable: out
# cause: out = torch.zeros(3)
# fix: out = state.new_zeros(3)
import torch
from torch.func import vmap


def lorenz(state, sigma=10.0, rho=28.0, beta=8 / 3):
    x, y, z = state
    out = torch.zeros(3)
    out[0] = sigma * (y - x)
    out[1] = x * (rho - z) - y
    out[2] = x * y - beta * z
    return out


states = torch.randn(16, 3)
derivatives = vmap(lorenz)(states)
