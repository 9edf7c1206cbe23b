"""Two regression tasks on one recurrent encoder with automatic loss balancing."""
import resource

import torch
import torch.nn as nn
import torch.nn.functional as F


class Signals:
    """Noisy oscillators; predict frequency and damping from the trace."""

    def __init__(self, seed, length=40):
        self.g = torch.Generator().manual_seed(seed)
        self.t = torch.arange(length).float()

    def batch(self, n):
        freq = 0.15 + 0.5 * torch.rand(n, 1, generator=self.g)
        damp = 0.005 + 0.08 * torch.rand(n, 1, generator=self.g)
        trace = torch.exp(-damp * self.t) * torch.cos(freq * self.t)
        trace = trace + 0.02 * torch.randn(trace.shape, generator=self.g)
        return trace.unsqueeze(-1), {"freq": 4 * freq, "damp": 20 * damp}


class Encoder(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.cell = nn.GRUCell(1, hidden)
        self.heads = nn.ModuleDict({k: nn.Linear(hidden, 1) for k in ("freq", "damp")})

    def forward(self, x):
        h = x.new_zeros(x.size(0), self.cell.hidden_size)
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        return {k: head(h) for k, head in self.heads.items()}


class LossBalancer:
    """Scales every task by the inverse of its recent loss level."""

    def __init__(self, tasks, decay=0.98):
        self.decay = decay
        self.level = {t: None for t in tasks}

    def update(self, losses):
        for task, value in losses.items():
            if self.level[task] is None:
                self.level[task] = value
            else:
                self.level[task] = self.decay * self.level[task] + (1 - self.decay) * value

    def weights(self):
        return {t: 1.0 if v is None else 1.0 / (v.item() + 1e-6) for t, v in self.level.items()}


def train(steps=260, warmup=60, lr=3e-3):
    data, test = Signals(0), Signals(1)
    model = Encoder()
    balancer = LossBalancer(("freq", "damp"))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for step in range(1, steps + 1):
        x, targets = data.batch(32)
        outputs = model(x)
        losses = {k: F.mse_loss(outputs[k], targets[k]) for k in outputs}
        if step > warmup:
            balancer.update(losses)
        weights = balancer.weights()
        total = sum(weights[k] * losses[k] for k in losses)
        optimizer.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            with torch.no_grad():
                x, targets = test.batch(200)
                out = model(x)
            rmse = {k: F.mse_loss(out[k], targets[k]).sqrt().item() for k in out}
            mem = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"step {step:3d} freq {rmse['freq']:.3f} damp {rmse['damp']:.3f} rss {mem:.0f} MB")


if __name__ == "__main__":
    torch.manual_seed(0)
    train()
