# code: BS222
# variable: total_loss
# cause: total_loss += loss.item()
# fix: loss.backward()
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total_loss = 0.0
for step in range(5):
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    total_loss += loss.item()
    total_loss.backward()
    optimizer.step()
