# code: BS224
# variable: net.aux
# cause: out = out + self.aux(h)
# fix: Step only an optimizer that has gradients
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)
        self.aux = nn.Linear(8, 1)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        h = torch.relu(self.body(x))
        out = self.head(h)
        if self.training and self.calls > 1:
            out = out + self.aux(h)
        return out


net = Net()
main = torch.optim.SGD([*net.body.parameters(), *net.head.parameters()], lr=0.1)
side = torch.optim.SGD(net.aux.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(3):
    main.zero_grad()
    side.zero_grad()
    loss = net(torch.randn(5, 4)).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(main)
    scaler.step(side)
    scaler.update()
