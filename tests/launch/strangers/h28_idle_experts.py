"""Top-1 mixture of experts with more experts than regimes: some stay idle on most batches."""
import torch
import torch.nn as nn


def regimes(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(n, 1, generator=g) - 2
    y = torch.where(x < -0.7, 1.5 * x + 2, torch.where(x < 0.7, torch.sin(4 * x), 2 - x.square()))
    return x, y + 0.02 * torch.randn(n, 1, generator=g)


class Expert(nn.Sequential):
    def __init__(self, width=24):
        super().__init__(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))


class SparseMoE(nn.Module):
    def __init__(self, experts=6, balance=0.1, jitter=0.5):
        super().__init__()
        self.gate = nn.Linear(1, experts)
        self.experts = nn.ModuleList(Expert() for _ in range(experts))
        self.balance, self.jitter = balance, jitter

    def forward(self, x):
        logits = self.gate(x)
        if self.training:                                   # exploration of the router
            logits = logits + self.jitter * torch.randn_like(logits)
        prob = logits.softmax(-1)
        weight, choice = prob.max(-1)
        y = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            rows = (choice == k).nonzero().squeeze(1)
            if len(rows):
                y = y.index_add(0, rows, weight[rows, None] * expert(x[rows]))
        load = nn.functional.one_hot(choice, prob.size(1)).float().mean(0)
        return y, self.balance * prob.size(1) * (load * prob.mean(0)).sum(), load.detach()


def fit(model, data, epochs, batch=32):
    x, y = data
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(1, epochs + 1):
        total, use = 0.0, torch.zeros(len(model.experts))
        for idx in torch.randperm(len(x)).split(batch):
            pred, aux, load = model(x[idx])
            mse = (pred - y[idx]).square().mean()
            optimizer.zero_grad()
            (mse + aux).backward()
            optimizer.step()
            total += mse.item() * len(idx)
            use += load * len(idx)
        if epoch % 10 == 0:
            yield epoch, total / len(x), (use / len(x)).tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = SparseMoE()
    for epoch, mse, use in fit(model, regimes(1000, 0), 60):
        with torch.no_grad():
            xt, yt = regimes(300, 1)
            model.eval()
            test = (model(xt)[0] - yt).square().mean().item()
            model.train()
        print(f"epoch {epoch} mse {mse:.4f} test {test:.4f} use", [round(u, 2) for u in use])
