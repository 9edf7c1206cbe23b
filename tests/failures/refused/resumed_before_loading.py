# code: BS200
# variable: initial_lr
# cause: cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10, 0, epoch - 1)
# fix: the state of optimizer, saved while it had a scheduler, before making this one
import torch
from torch import nn


def parts(model, epoch):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10, 0, epoch - 1)
    return optimizer, cosine


def train(model, optimizer, cosine, epochs):
    for _ in range(epochs):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()
        cosine.step()


model = nn.Linear(3, 1)
optimizer, cosine = parts(model, 0)
train(model, optimizer, cosine, 3)
saved = {"optimizer": optimizer.state_dict(), "epoch": 3}
optimizer, cosine = parts(model, saved["epoch"])
optimizer.load_state_dict(saved["optimizer"])
train(model, optimizer, cosine, 3)
