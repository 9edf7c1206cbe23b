# code: BS213
# variable: image
# cause: image = torch.rand(1, 1, 8, 8)
# fix: requires_grad
import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 5))


def saliency(image, label):
    score = net(image)[0, label]
    score.backward()
    return image.grad.abs().amax(dim=1)


image = torch.rand(1, 1, 8, 8)
heat = saliency(image, label=3)
