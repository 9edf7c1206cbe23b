# code: BS203
# variable: loss
# cause: p = F.one_hot(logits.argmax(1), 3)
# fix: p = torch.softmax(logits, dim=1).movedim(1, -1)
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)

net = nn.Conv2d(1, 3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
mask = torch.randint(0, 3, (2, 5, 5))
for it in range(3):
    logits = net(torch.randn(2, 1, 5, 5))
    p = F.one_hot(logits.argmax(1), 3)
    t = F.one_hot(mask, 3)
    loss = 1 - (p * t).sum() / (p + t).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
