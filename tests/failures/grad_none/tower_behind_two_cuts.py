# code: BS213
# variable: tower.weight
# cause: image = image.detach()
# fix: write `return F.normalize(tower(x), dim=1)`, without .detach()
"""Two towers: what one computes is detached where it is made, and once more in the loss."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
tower, other = nn.Linear(6, 4), nn.Linear(5, 4)


def embed(x):
    return F.normalize(tower(x), dim=1).detach()


def clip_loss(image, text):
    image = image.detach()
    logits = image @ text.T
    return F.cross_entropy(logits, torch.arange(len(logits)))


loss = clip_loss(embed(torch.randn(7, 6)), F.normalize(other(torch.randn(7, 5)), dim=1))
loss.backward()
for weights in (other.weight, tower.weight):
    print(weights.grad.norm())
