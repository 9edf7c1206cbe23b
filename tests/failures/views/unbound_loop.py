# code: BS209
# variable: frame
# cause: frame *= window
# fix: torch.stack
import torch
from torch import nn

frontend = nn.Conv1d(1, 4, 3, padding=1)
window = torch.hann_window(16)


def features(audio):
    frames = frontend(audio)
    for frame in frames.unbind(0):
        frame *= window
    return frames.abs().mean(-1)


features(torch.randn(3, 1, 16)).sum().backward()
