# code: BS223
# variable: self.trained
# cause: self.trained = (p for p in net.parameters() if p.requires_grad)
# fix: self.trained = list(p for p in net.parameters() if p.requires_grad)
import torch
from torch import nn


class Folds:
    """Cross-validation: each fold starts from the same weights, with an optimizer of its own."""

    def __init__(self, net):
        self.net = net
        self.trained = (p for p in net.parameters() if p.requires_grad)
        self.start = {name: value.clone() for name, value in net.state_dict().items()}

    def fold(self, x, y):
        self.net.load_state_dict(self.start)
        optimizer = torch.optim.Adam(self.trained, lr=1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.l1_loss(self.net(x), y).backward()
            optimizer.step()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 1))
net[0].bias.requires_grad_(False)
folds = Folds(net)
x = torch.randn(30, 3)
for part in x.chunk(3):
    folds.fold(part, part.sum(1, keepdim=True))
