# code: BS224
# variable: opt
# cause: opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
# fix: above the loop on line 29
import torch
from torch import nn

torch.manual_seed(0)


class Adapted(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu")
net.requires_grad_(False)
net[0] = Adapted(net[0])
x, y = torch.randn(16, 6), torch.randint(0, 2, (16,))


for epoch in range(3):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
