# code: BS213
# variable: model.weight
# cause: print("gradient", model.weight.grad.abs().mean())
# fix: backward()
import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, x in enumerate(torch.randn(2, 4, 3)):
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    print("gradient", model.weight.grad.abs().mean())
    loss.backward()
    optimizer.step()
