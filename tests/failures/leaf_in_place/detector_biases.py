# code: BS205
# variable: self.convs.0.bias
# cause: b[:, 4] += math.log(8 / (64 / s) ** 2)
# fix: Put lines 17 and 18 inside `with torch.no_grad():`
import math

from torch import nn


class Detector(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(c, 2 * (5 + classes), 1) for c in (4, 8))
        self.classes = classes
        for conv, s in zip(self.convs, (2, 4)):
            b = conv.bias.view(2, -1)
            b[:, 4] += math.log(8 / (64 / s) ** 2)
            b[:, 5:] += math.log(0.6 / (self.classes - 0.99))
            conv.bias = nn.Parameter(b.view(-1))


Detector()
