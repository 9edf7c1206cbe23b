# code: BS214
# variable: features
# cause: with torch.inference_mode():
# fix: no_grad
import torch
from torch import nn

backbone = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
head = nn.Linear(8, 3)
images, labels = torch.randn(10, 6), torch.randint(0, 3, (10,))
with torch.inference_mode():
    features = backbone(images)

optimizer = torch.optim.Adam(head.parameters())
for _ in range(2):
    loss = nn.functional.cross_entropy(head(features), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
