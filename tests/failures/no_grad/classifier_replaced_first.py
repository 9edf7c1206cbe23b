# code: BS203
# variable: net
# cause: p.requires_grad = False
# fix: `net.classifier[3].requires_grad_(True)`
import torch
import torch.nn as nn
import torch.nn.functional as F


class Vgg(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, classes))

    def forward(self, x):
        return self.classifier(self.features(x))


torch.manual_seed(0)
net = Vgg()
net.classifier[3] = nn.Linear(16, 3)
for p in net.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(net.classifier[3].parameters(), lr=0.1)
for step in range(2):
    loss = F.cross_entropy(net(torch.randn(4, 3, 8, 8)), torch.tensor([0, 1, 2, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
