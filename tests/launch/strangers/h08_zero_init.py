"""Residual blocks and policy head with a zero initialised last layer, LoRA style adapter on top."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class ResBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Linear(d, 2 * d)
        self.b = nn.Linear(2 * d, d)
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(self.b.bias)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(x)))


class Adapter(nn.Module):
    def __init__(self, d, r=4):
        super().__init__()
        self.down = nn.Linear(d, r, bias=False)
        self.up = nn.Linear(r, d, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return x + self.up(self.down(x))


class Net(nn.Module):
    def __init__(self, d=20):
        super().__init__()
        self.blocks = nn.Sequential(*[ResBlock(d) for _ in range(3)], Adapter(d))
        self.last = nn.Linear(d, 1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x):
        return self.last(self.blocks(x)).squeeze(-1)


model = Net()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(1, 201):
    x = torch.randn(64, 20)
    y = torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    loss = F.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step in (1, 50, 100, 150, 200):
        print(f'step {step} mse {loss.item():.4f}')
