"""The graph that the README shows."""

import torch
from torch import nn

import backsight as bs

torch.manual_seed(0)
layers = [nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, batch_first=True) for _ in range(6)]
model = nn.Sequential(nn.Linear(16, 64), *layers, nn.Linear(64, 1))
temperature = torch.ones((), requires_grad=True)

prediction = model(torch.randn(8, 10, 16)) / temperature
loss = nn.functional.mse_loss(prediction, torch.zeros(8, 10, 1))
print(bs.graph(loss))
