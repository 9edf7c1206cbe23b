# code: BS203
# variable: loss
# cause: task = "multi_label"
# fix: add a branch for "multi_label"
import torch
from torch import nn
import torch.nn.functional as F

def compute_loss(out, y, task):
    loss = torch.zeros((), device=out.device)
    if task == "classification":
        loss = F.cross_entropy(out, y)
    elif task == "multilabel":
        loss = F.binary_cross_entropy_with_logits(out, y.float())
    elif task == "regression":
        loss = F.mse_loss(out, y)
    return loss

class Config:
    task = "multi_label"
    lr = 0.1

cfg = Config()
net = nn.Linear(6, 4)
opt = torch.optim.SGD(net.parameters(), lr=cfg.lr)
for _ in range(3):
    x, y = torch.randn(8, 6), torch.randint(0, 2, (8, 4))
    loss = compute_loss(net(x), y, cfg.task)
    opt.zero_grad()
    loss.backward()
    opt.step()
