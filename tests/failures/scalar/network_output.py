# code: BS212
# variable: output
# cause: output.backward()
# fix: loss
import torch
from torch import nn


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    output = model(x)
    loss = nn.functional.mse_loss(output, y)
    output.backward()
    optimizer.step()
    return loss


model = nn.Linear(2, 3)
train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 2), torch.randn(4, 3))
