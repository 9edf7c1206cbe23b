# code: BS202
# variable: pair[1]
# cause: pair[1][:, 0] = 0.0
# fix: pair = (*pair[:1], pair[1].clone(), *pair[2:])
import torch
from torch import nn

torch.manual_seed(0)
left, right = nn.Linear(3, 3), nn.Linear(3, 3)
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.1)
for _ in range(2):
    x = torch.randn(4, 3)
    pair = left(x), torch.sigmoid(right(x))
    product = pair[0] * pair[1]
    pair[1][:, 0] = 0.0
    loss = (product.sum(1) - pair[1].sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
