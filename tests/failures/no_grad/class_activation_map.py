# code: BS203
# variable: self.model
# cause: p.requires_grad = False
# fix: image.requires_grad_()
import torch
from torch import nn


def small_resnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10))


class GradCAM:
    def __init__(self, model, layer):
        self.model = model.eval()
        for p in self.model.parameters():
            p.requires_grad = False
        self.maps, self.grads = None, None
        layer.register_forward_hook(self._keep)

    def _keep(self, module, args, out):
        self.maps = out
        if out.requires_grad:
            out.register_hook(lambda g: setattr(self, "grads", g))

    def __call__(self, image, target=None):
        scores = self.model(image)
        target = scores.argmax(1) if target is None else target
        picked = scores.gather(1, target[:, None]).sum()
        picked.backward()
        weight = self.grads.mean((2, 3), keepdim=True)
        return torch.relu((weight * self.maps).sum(1))


torch.manual_seed(0)
net = small_resnet()
cam = GradCAM(net, net[2])
print(cam(torch.randn(2, 3, 16, 16)).shape)
