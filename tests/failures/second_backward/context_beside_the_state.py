# code: BS201
# variable: net.ctx
# cause: self.ctx = gate * self.ctx + (1 - gate) * self.h
# fix: net.ctx = net.ctx.detach()
import torch
import torch.nn as nn


class Reader(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.cell = nn.LSTMCell(6 + d, d)
        self.key, self.out = nn.Linear(d, d), nn.Linear(2 * d, 6)
        self.d = d

    def begin(self, n):
        self.h = torch.zeros(n, self.d)
        self.c = torch.zeros(n, self.d)
        self.ctx = torch.zeros(n, self.d)

    def forward(self, x):
        self.h, self.c = self.cell(torch.cat([x, self.ctx], 1), (self.h, self.c))
        gate = torch.sigmoid(self.key(self.h))
        self.ctx = gate * self.ctx + (1 - gate) * self.h
        return self.out(torch.cat([self.h, self.ctx], 1))


torch.manual_seed(0)
net = Reader()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
stream = torch.randn(40, 8, 6).cumsum(0) * 0.1
net.begin(8)
for t in range(39):
    pred = net(stream[t])
    loss = (pred - stream[t + 1]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.h = net.h.detach()
    net.c = net.c.detach()
    if t % 10 == 0:
        print(t, loss.item())
