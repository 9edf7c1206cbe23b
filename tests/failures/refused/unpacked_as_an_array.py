# code: BS200
# variable: loss.backward()
# cause: return values
# fix: write `return torch.from_numpy(values)`
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

folder = Path(tempfile.mkdtemp())


def to_disk(tensor):
    if tensor.numel() < 20 or isinstance(tensor, nn.Parameter):
        return tensor
    np.save(folder / f"{id(tensor)}.npy", tensor.detach().numpy())
    return folder / f"{id(tensor)}.npy"


def from_disk(kept):
    if torch.is_tensor(kept):
        return kept
    values = np.load(kept)
    return values


model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
with torch.autograd.graph.saved_tensors_hooks(to_disk, from_disk):
    loss = model(torch.randn(8, 6)).square().mean()
loss.backward()
