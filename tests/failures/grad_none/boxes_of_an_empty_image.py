# code: BS213
# variable: net.weight.grad
# cause: for box in boxes:
# fix: put `if not (boxes or masks): continue` above line 23
"""An image without boxes and without masks: the loss stays what it was at the start."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
images = [([torch.randn(4)], []), ([], [])]


def train():
    for boxes, masks in images:
        net.zero_grad()
        loss = torch.zeros((), requires_grad=True)
        for box in boxes:
            loss = loss + net(box).square().sum()
        for k, mask in enumerate(masks):
            loss = loss + net(mask).abs().sum() / (k + 1)
        loss.backward()
        norm = net.weight.grad.norm()
        net.weight.data -= 0.1 * net.weight.grad / norm


train()
