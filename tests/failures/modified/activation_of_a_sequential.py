# code: BS202
# variable: model.2
# cause: loss = model(torch.randn(3, 4)).sum()
# fix: Create that ReLU without inplace=True
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.ReLU(inplace=True), nn.Linear(4, 1))
loss = model(torch.randn(3, 4)).sum()
loss.backward()
