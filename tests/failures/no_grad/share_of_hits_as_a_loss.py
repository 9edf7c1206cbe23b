# code: BS203
# variable: scores
# cause: return (scores.argmax(dim=1) == labels).float().mean()
# fix: On line 19, write `loss = torch.nn.functional.cross_entropy(outputs, classes)`
import torch
from torch import nn


def hits(scores, labels):
    return (scores.argmax(dim=1) == labels).float().mean()


net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, classes = torch.randn(12, 4), torch.arange(12) % 3
for _ in range(2):
    outputs = net(x)
    optimizer.zero_grad()
    loss = 1 - hits(outputs, classes)
    loss.backward()
    optimizer.step()
