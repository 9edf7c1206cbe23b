# code: BS200
# variable: clicked
# cause: loss = F.binary_cross_entropy_with_logits(net(views).squeeze(1), clicked)
# fix: F.binary_cross_entropy_with_logits(net(views).squeeze(1), clicked.float())
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
views = torch.randn(24, 3)
clicked = (views[:, 0] > 0).long()
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    loss = F.binary_cross_entropy_with_logits(net(views).squeeze(1), clicked)
    loss.backward()
    optimizer.step()
