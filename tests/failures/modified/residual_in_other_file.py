# code: BS202
# variable: out
# file: _blocks.py
# cause: out += shortcut
# fix: out = out + shortcut
import torch
from _blocks import ResidualBlock
from torch import nn

model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), ResidualBlock(4), nn.Flatten(), nn.Linear(4 * 36, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(2, 1, 6, 6), torch.tensor([0, 1])
loss = nn.functional.cross_entropy(model(images), labels)
optimizer.zero_grad()
loss.backward()
optimizer.step()
