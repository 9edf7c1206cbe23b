# code: BS200
# variable: nn.MSELoss(model(x), x.sum(1, keepdim=True))
# cause: loss = nn.MSELoss(model(x), x.sum(1, keepdim=True))
# fix: write `loss = nn.MSELoss()(model(x), x.sum(1, keepdim=True))`
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(10, 6)
    loss = nn.MSELoss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
