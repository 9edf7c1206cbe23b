# code: BS203
# variable: loss
# cause: mask = scores.argmax(dim=1).unsqueeze(1).contiguous().float()
# fix: torch.softmax(scores, dim=1)[:, 1].unsqueeze(1)
import torch
from torch import nn
from torch.nn import functional as F

net = nn.Conv2d(3, 2, 3, padding=1)
kernel = torch.tensor([[[[-1.0, 0.0, 1.0]]]])


def outline(scores):
    mask = scores.argmax(dim=1).unsqueeze(1).contiguous().float()
    return F.conv2d(mask, kernel).square().mean()


optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = outline(net(torch.rand(2, 3, 8, 8)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
