# code: BS203
# variable: loss
# cause: return checkpoint(self.mid, h, use_reentrant=True)
# fix: use_reentrant=False
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)

from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(4, 8).requires_grad_(False)
        self.mid = nn.Linear(8, 8)

    def forward(self, x):
        h = self.inp(x)
        if self.training:
            return checkpoint(self.mid, h, use_reentrant=True)
        return self.mid(h)


student = Net()
opt = torch.optim.SGD(student.mid.parameters(), lr=0.1)
for it in range(3):
    x = torch.randn(6, 4)
    with torch.no_grad():
        student.eval()
        goal = student(x) * 2
    student.train()
    out = student(x)
    loss = F.mse_loss(out, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
