# code: BS225
# variable: features
# cause: return grad.abs().max().item()
# fix: tensor with the shape of grad
import torch
from torch import nn


class GradCam:
    def __init__(self, net):
        self.net, self.largest = net, 0.0

    def remember(self, grad):
        self.largest = grad.abs().max().item()
        return grad.abs().max().item()

    def __call__(self, image):
        features = self.net[0](image)
        features.register_hook(self.remember)
        score = self.net[1:](features)[0].max()
        score.backward()
        return self.largest


net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
GradCam(net)(torch.randn(1, 1, 8, 8))
