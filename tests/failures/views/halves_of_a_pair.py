# code: BS209
# variable: signal
# cause: signal[:, -1] = 0
# fix: left = left.clone()
import torch
from torch import nn


def silence(signal):
    """Nothing is known of the last frame."""
    signal[:, -1] = 0


class Stereo(nn.Module):
    def __init__(self, frames):
        super().__init__()
        self.encode = nn.Linear(frames, 2 * frames)
        self.decode = nn.Linear(frames, frames)

    def both(self, x):
        return self.encode(x).unflatten(-1, (2, -1)).movedim(1, 0)

    def forward(self, x):
        left, right = self.both(x)
        silence(left)
        return self.decode(left + right.tanh())


torch.manual_seed(0)
stereo = Stereo(8)
x = torch.randn(4, 8)
(stereo(x) - x).abs().mean().backward()
