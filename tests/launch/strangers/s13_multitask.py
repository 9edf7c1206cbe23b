import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.cls = nn.Linear(48, 3)
        self.reg = nn.Linear(48, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.cls(h), self.reg(h).squeeze(-1)


A = torch.randn(10, 3)


def draw(n=32):
    x = torch.randn(n, 10)
    return x, (x @ A).argmax(1), torch.sin(x[:, 0] * 2) + x[:, 1]


class EvalEvery:
    """callback: evaluates every `period` steps once training is past `start`"""
    def __init__(self, start, period):
        self.start, self.period = start, period

    def __call__(self, step, model):
        if step < self.start or step % self.period:
            return
        model.eval()
        torch.set_grad_enabled(False)
        x, c, r = draw(500)
        lc, lr_ = model(x)
        print(f'step {step}: acc {(lc.argmax(1) == c).float().mean():.3f} rmse {(lr_ - r).pow(2).mean().sqrt():.3f}')
        model.train()


def backward_if_needed(loss):
    # some batches have no labels at all, their loss is a plain 0
    if loss.requires_grad:
        loss.backward()


model = MultiTask()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
cb = EvalEvery(start=60, period=30)
for step in range(1, 241):
    x, c, r = draw()
    lc, lr_ = model(x)
    loss = torch.zeros(())
    if step % 10 != 0:
        loss = F.cross_entropy(lc, c) + F.mse_loss(lr_, r)
    opt.zero_grad()
    backward_if_needed(loss)
    opt.step()
    cb(step, model)
print('done')
