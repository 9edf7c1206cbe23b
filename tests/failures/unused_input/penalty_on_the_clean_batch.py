# code: BS204
# variable: clean
# cause: images.requires_grad = True
# fix: clean.requires_grad_()
import torch
from torch import nn


def blur(images):
    return nn.functional.avg_pool2d(images, 3, stride=1, padding=1) + 0.01 * torch.randn_like(images)


def smoothness(scores, images):
    images.requires_grad = True
    (slope,) = torch.autograd.grad(scores.sum(), images, create_graph=True)
    return slope.square().sum((1, 2, 3)).mean()


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Softplus(), nn.Flatten(), nn.Linear(4 * 36, 1))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    clean = torch.randn(8, 1, 8, 8)
    noisy = blur(clean)
    scores = net(noisy)
    loss = scores.square().mean() + smoothness(scores, clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
