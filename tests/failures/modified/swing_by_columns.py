# code: BS202
# variable: track
# cause: track[k + 1] = torch.cat([place, speed], dim=1)
# fix: read parts[k][:, 1:] for track[k, :, 1:], parts[k] for track[k]
import torch
from torch import nn

torch.manual_seed(0)
force = nn.Linear(2, 1)


def swing(start, steps=5):
    track = torch.zeros(steps + 1, len(start), 2)
    track[0] = start
    for k in range(steps):
        speed = track[k, :, 1:] + 0.1 * force(track[k])
        place = track[k, :, :1] + 0.1 * speed
        track[k + 1] = torch.cat([place, speed], dim=1)
    return track


swing(torch.randn(4, 2)).square().mean().backward()
