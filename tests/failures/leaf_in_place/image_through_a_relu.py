# code: BS205
# variable: image
# cause: model(image)
# fix: image.clone()
import torch
from torch import nn

model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 1))
image = torch.randn(2, 3, requires_grad=True)
model(image)
