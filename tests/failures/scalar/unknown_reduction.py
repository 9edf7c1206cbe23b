# code: BS212
# variable: loss
# cause: config = {"lr": 0.01, "loss": {"gamma": 1.5, "reduction": "batchmean"}}
# fix: one of "mean" and "sum"
import torch
from torch import nn
import torch.nn.functional as F

class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, reduction="mean"):
        super().__init__()
        self.gamma = gamma
        self.reduction = reduction

    def forward(self, logits, target):
        bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = torch.exp(-bce)
        loss = (1 - p) ** self.gamma * bce
        if self.reduction == "mean":
            loss = loss.mean()
        elif self.reduction == "sum":
            loss = loss.sum()
        return loss

config = {"lr": 0.01, "loss": {"gamma": 1.5, "reduction": "batchmean"}}
net = nn.Linear(5, 3)
criterion = FocalLoss(**config["loss"])
opt = torch.optim.SGD(net.parameters(), lr=config["lr"])
x, y = torch.randn(4, 5), torch.randint(0, 2, (4, 3)).float()
for _ in range(2):
    opt.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    opt.step()
