# code: BS209
# variable: wh
# cause: wh.exp_().mul_(anchors)
# fix: wh
import torch
from torch import nn


class BoxHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.regress = nn.Linear(width, 5)

    def forward(self, h, anchors):
        xy, wh, objectness = torch.split(self.regress(h), [2, 2, 1], dim=-1)
        wh.exp_().mul_(anchors)
        return torch.cat([xy.sigmoid(), wh, objectness.sigmoid()], dim=-1)


head = BoxHead(6)
boxes = head(torch.randn(4, 6), anchors=torch.tensor([1.0, 2.0]))
boxes.sum().backward()
