# code: BS203
# variable: z0
# cause: z0 = z.clone()
# fix: z0.requires_grad_()
import torch
import torch.nn as nn
import torch.nn.functional as F


class Cell(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(d, d, bias=False)
        self.u = nn.Linear(d, d)
        with torch.no_grad():
            self.w.weight.mul_(0.3)

    def forward(self, z, x):
        return torch.tanh(self.w(z) + self.u(x))


def fixed_point(f, z, x, iters=40, tol=1e-5):
    for _ in range(iters):
        nxt = f(z, x)
        if (nxt - z).norm() < tol * z.norm().clamp_min(1e-6):
            break
        z = nxt
    return z


class DEQ(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        with torch.no_grad():
            z = fixed_point(self.cell, torch.zeros_like(x), x)
        z0 = z.clone()
        f0 = self.cell(z0, x)
        z = self.cell(z, x)

        def implicit(grad):
            g = grad
            for _ in range(30):
                g = torch.autograd.grad(f0, z0, g, retain_graph=True)[0] + grad
            return g

        z.register_hook(implicit)
        return z


class Classifier(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.inp = nn.Linear(6, d)
        self.deq = DEQ(Cell(d))
        self.out = nn.Linear(d, classes)

    def forward(self, x):
        return self.out(self.deq(self.inp(x)))


torch.manual_seed(0)
net = Classifier(16, 3)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(128, 6)
y = x[:, :3].argmax(1)
for epoch in range(20):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
