import torch
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        shortcut = x
        out = torch.sigmoid(self.conv(x))
        out += shortcut
        return out
