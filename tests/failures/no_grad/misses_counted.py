# code: BS203
# variable: scores
# cause: predicted = scores.argmax(1)
# fix: On line 15, write `loss = F.cross_entropy(scores, labels)`
import torch
from torch.nn import Linear
from torch.nn import functional as F

net = Linear(6, 3)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x, labels = torch.randn(9, 6), torch.arange(9) % 3
for _ in range(2):
    scores = net(x)
    predicted = scores.argmax(1)
    loss = (predicted != labels).sum() / len(labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
