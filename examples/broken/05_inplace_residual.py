"""A residual block that adds its shortcut with `+=` to the output of a ReLU.

What is wrong: ReLU keeps its output to know which entries were positive, and `out += shortcut` changes it.
PyTorch says:  one of the variables needed for gradient computation has been modified by an inplace operation
Fix:          write `out = out + shortcut`, which leaves the output of the ReLU as it was.
"""

import torch
import torch.nn.functional as F
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        shortcut = x
        out = F.relu(self.conv1(x))
        out = F.relu(self.conv2(out))
        out += shortcut
        return out


def train(model, images, labels, epochs=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    stem = nn.Conv2d(3, 8, 3, padding=1)
    model = nn.Sequential(stem, ResidualBlock(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    train(model, images=torch.randn(16, 3, 12, 12), labels=torch.randint(0, 10, (16,)))
