# code: BS216
# variable: model.features
# cause: return model.features.grad
# fix: retain_grad
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.fc = nn.Linear(2 * 16, 2)

    def forward(self, x):
        self.features = self.conv(x)
        return self.fc(torch.relu(self.features).flatten(1))


def grad_cam(model, image):
    model(image)[0, 1].backward()
    return model.features.grad


heat = grad_cam(Net(), torch.randn(1, 1, 6, 6))
