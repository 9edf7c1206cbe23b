# code: BS216
# variable: crop
# cause: sizes.append(crop.grad)
# fix: put `crop.retain_grad()` below line 18
import torch
from torch import nn


def sensitivity(net, images):
    sizes = []
    for image in images:
        image.requires_grad_()
        top = net(image.flatten()).argmax()
        crop = image * (image > 0)
        if top > 2:
            crop = crop.flip(0)
        crop = crop.clone()
        crop.requires_grad_()
        net(crop.flatten()).max().backward()
        sizes.append(crop.grad)
    return sizes


torch.manual_seed(0)
print(sensitivity(nn.Linear(9, 4), torch.randn(3, 3, 3).unbind()))
