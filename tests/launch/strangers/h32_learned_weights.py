"""Two regression tasks with learned uncertainty weights and a cyclic rate that rests at zero between cycles."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from sklearn.datasets import load_diabetes


@dataclass
class Cycle:
    length: int = 8
    rest: int = 2          # epochs at rate zero at the end of every cycle (weights are snapshotted there)

    def __call__(self, epoch):
        k = epoch % self.length
        active = self.length - self.rest
        return 0.0 if k >= active else 0.5 * (1 + math.cos(math.pi * k / active))


class UncertaintyWeights(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(n))

    def forward(self, losses):
        return (torch.exp(-self.log_var) * losses + self.log_var).sum() / 2


class TwoTargets(nn.Module):
    def __init__(self, d_in, width=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d_in, width), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(width, 1), nn.Linear(width, 1)])

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([head(h) for head in self.heads], 1)


def data():
    d = load_diabetes()
    x = torch.tensor(d.data, dtype=torch.float32)
    x = x / x.std(0)
    y = torch.tensor(d.target, dtype=torch.float32)
    second = 0.3 * (x[:, 2] * x[:, 8]) + 0.1 * x[:, 3]
    t = torch.stack([(y - y.mean()) / y.std(), second], 1)
    return x[:350], t[:350], x[350:], t[350:]


def main(epochs=32):
    torch.manual_seed(0)
    x, t, x_test, t_test = data()
    model, weigh = TwoTargets(x.size(1)), UncertaintyWeights(2)
    opt = torch.optim.Adam([{"params": model.parameters()}, {"params": weigh.parameters(), "lr": 2e-2}], lr=5e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, Cycle())
    snapshots = []
    for epoch in range(epochs):
        rate = opt.param_groups[0]["lr"]
        for idx in torch.randperm(len(x)).split(50):
            losses = (model(x[idx]) - t[idx]).square().mean(0)
            loss = weigh(losses)
            opt.zero_grad()
            loss.backward()
            opt.step()
        sched.step()
        if rate == 0.0 and opt.param_groups[0]["lr"] > 0:
            with torch.no_grad():
                snapshots.append(model(x_test))
                mse = (torch.stack(snapshots).mean(0) - t_test).square().mean(0)
            print(f"epoch {epoch} combined {loss.item():.4f} ensemble of {len(snapshots)} test mse "
                  f"{mse[0]:.3f} {mse[1]:.3f} log-variances {[round(v, 2) for v in weigh.log_var.tolist()]}")


if __name__ == "__main__":
    main()
