# code: BS212
# variable: loss
# cause: loss = weight * per_sample
# fix: mean
import torch
import torch.nn.functional as F
from torch import nn


def training_step(model, batch):
    x, y, weight = batch
    prediction = model(x)
    per_sample = F.mse_loss(prediction, y, reduction="none").sum(dim=1)
    loss = weight * per_sample
    return loss


model = nn.Linear(3, 2)
loss = training_step(model, (torch.randn(4, 3), torch.randn(4, 2), torch.rand(4)))
loss.backward()
