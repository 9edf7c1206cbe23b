"""Images are augmented on the fly, and a homography is fitted by gradients."""

import kornia
import torch
from _digest import digest
from torch import nn

torch.manual_seed(0)
augment = kornia.augmentation.AugmentationSequential(
    kornia.augmentation.RandomHorizontalFlip(), kornia.augmentation.RandomAffine(15.0), data_keys=["input"]
)
model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
focal = kornia.losses.FocalLoss(alpha=0.5, reduction="mean")
images, labels = torch.rand(64, 3, 16, 16), torch.randint(0, 2, (64,))
for _ in range(4):
    for x, y in zip(images.split(16), labels.split(16), strict=True):
        loss = focal(model(augment(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(loss.item())

homography = nn.Parameter(torch.eye(3)[None])
fitter = torch.optim.Adam([homography], lr=1e-3)
target = kornia.geometry.transform.translate(images[:1], torch.tensor([[1.0, 1.0]]))
for _ in range(30):
    warped = kornia.geometry.transform.warp_perspective(images[:1], homography, (16, 16))
    error = nn.functional.l1_loss(warped, target)
    fitter.zero_grad()
    error.backward()
    fitter.step()
print(error.item())
print(digest(model, homography))
