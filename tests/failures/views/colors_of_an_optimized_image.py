# code: BS209
# variable: plane
# cause: plane.mul_(scale).add_(shift)
# fix: torch.stack([plane.mul(scale).add(shift) for plane, scale, shift in zip(shown[0].clone(), SCALES, SHIFTS)])
import torch
from torch import nn

SCALES, SHIFTS = [0.2, 0.3, 0.25], [0.5, 0.4, 0.45]


def in_colors(image):
    shown = image.clone()
    for plane, scale, shift in zip(shown[0], SCALES, SHIFTS):
        plane.mul_(scale).add_(shift)
    return shown


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2)).requires_grad_(False)
image = torch.randn(1, 3, 8, 8, requires_grad=True)
optimizer = torch.optim.Adam([image], lr=0.1)
for _ in range(2):
    colors = in_colors(image)
    outside = (colors - colors.clamp(0, 1)).square().mean()
    loss = outside - net(image)[0, 1]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
