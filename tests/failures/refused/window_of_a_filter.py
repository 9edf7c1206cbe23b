# code: BS200
# variable: loss.backward()
# cause: loss = nn.functional.huber_loss(heard, clean)
# fix: Or make self.window float32
# unsure: that the attribute gave its dtype is read from the text
import numpy as np
import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mix = nn.Linear(size, size)
        self.window = torch.as_tensor(np.hanning(size))

    def forward(self, sound):
        return self.mix(sound) * self.window

    def learn(self, sound, clean):
        heard = self(sound)
        loss = nn.functional.huber_loss(heard, clean)
        loss.backward()


Filter(8).learn(torch.rand(4, 8), torch.rand(4, 8))
