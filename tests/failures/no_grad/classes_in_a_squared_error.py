# code: BS203
# variable: err
# cause: guess = out.argmax(1).float()
# fix: err = torch.nn.functional.cross_entropy(out, y.long())
import torch
from torch import nn

torch.manual_seed(0)

net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
y = torch.randint(0, 3, (8,)).float()
for it in range(3):
    out = net(torch.randn(8, 4))
    guess = out.argmax(1).float()
    acc = (guess == y).float().mean()
    err = nn.MSELoss()(guess, y)
    opt.zero_grad()
    err.backward()
    opt.step()
