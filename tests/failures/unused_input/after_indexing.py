# code: BS204
# variable: pixel
# cause: (sensitivity,) = torch.autograd.grad(logits.max(), pixel)
# fix: image
import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
image = torch.rand(1, 1, 6, 6, requires_grad=True)
logits = net(image)
pixel = image[0, 0, 2, 2]
(sensitivity,) = torch.autograd.grad(logits.max(), pixel)
