# code: BS224
# variable: scaler.unscale_(optim)
# cause: continue
# fix: Put `scaler.update()` above line
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.f(x)


def check(norm):
    if not torch.isfinite(norm):
        raise FloatingPointError(f"norm {norm}")
    return norm


net = Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for it in range(10):
    x = torch.randn(8, 4)
    target = x.prod(1, keepdim=True)
    if it == 4:
        x[0, 0] = float("inf")
    optim.zero_grad()
    try:
        loss = (net(x) - target).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optim)
        norm = check(nn.utils.clip_grad_norm_(net.parameters(), 1.0))
        scaler.step(optim)
        scaler.update()
    except FloatingPointError as e:
        print("skip", it, e)
        continue
    print(it, loss.item(), norm.item())
