# code: BS200
# variable: optimizer
# cause: optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.01)
# fix: Load the state first, then freeze: move line 36 below line 38
# fix: remove line 38
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.stem(x))


def fit(net, optimizer):
    for _ in range(3):
        loss = nn.functional.cross_entropy(net(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


x, labels = torch.randn(12, 6), torch.randint(3, (12,))
net = Classifier()
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
fit(net, optimizer)
saved = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}

net = Classifier()
net.load_state_dict(saved["net"])
net.stem.requires_grad_(False)
optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.01)
optimizer.load_state_dict(saved["optimizer"])
fit(net, optimizer)
