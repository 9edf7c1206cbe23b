# code: BS209
# variable: score
# cause: score -= score.detach().amax(1, keepdim=True)
# fix: score = score - score.detach().amax(1, keepdim=True)
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    pieces = net(torch.randn(8, 6)).chunk(4)
    total = 0.0
    for score in pieces:
        score -= score.detach().amax(1, keepdim=True)
        total = total + (score.exp().sum(1).log() - score[:, 0]).mean()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
