"""Mixture of experts with top-1 routing, load balancing and a zero-initialised residual branch."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class MoELayer(nn.Module):
    def __init__(self, dim=24, hidden=32, n_experts=6):
        super().__init__()
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(n_experts))

    def forward(self, x):
        probs = self.router(x).softmax(-1)
        gate, choice = probs.max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = (choice == i).nonzero().squeeze(1)
            if len(mine):
                out[mine] = expert(x[mine]) * gate[mine].unsqueeze(1)
        share = F.one_hot(choice, len(self.experts)).float().mean(0)
        balance = len(self.experts) * (share * probs.mean(0)).sum()
        return x + out, balance, share


class Model(nn.Module):
    def __init__(self, d_in=10, dim=24):
        super().__init__()
        self.inp = nn.Linear(d_in, dim)
        self.moe = MoELayer(dim)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h, balance, share = self.moe(self.inp(x))
        return self.out(self.norm(h)).squeeze(-1), balance, share


def piecewise(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    w = torch.randn(3, 10, generator=torch.Generator().manual_seed(9))
    region = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return x, (x * w[region]).sum(1) / 3 + 0.05 * torch.randn(n, generator=g)


def main(steps=320, batch=48):
    torch.manual_seed(0)
    x, y = piecewise(4000, 0)
    xt, yt = piecewise(1000, 1)
    model = Model()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=8e-3, total_steps=steps)
    for step in range(1, steps + 1):
        idx = torch.randint(0, len(x), (batch,))
        pred, balance, share = model(x[idx])
        loss = F.mse_loss(pred, y[idx]) + 0.01 * balance
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 40 == 0:
            with torch.no_grad():
                mse = F.mse_loss(model(xt)[0], yt).item()
            print(f"step {step} loss {loss.item():.3f} test mse {mse:.4f} "
                  f"load {[round(v, 2) for v in share.tolist()]}")


if __name__ == "__main__":
    main()
