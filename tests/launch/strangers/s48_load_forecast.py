"""Day-ahead load forecasting; series with low data quality get a small weight."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HISTORY, HORIZON = 48, 24


class LoadSeries(Dataset):
    def __init__(self, n, seed, broken=0.0):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(HISTORY + HORIZON).float()
        phase = 2 * math.pi * torch.rand(n, 1, generator=g)
        level = torch.randn(n, 1, generator=g)
        series = level + torch.sin(2 * math.pi * t / 24 + phase) \
            + 0.5 * torch.sin(4 * math.pi * t / 24 + 2 * phase)
        series = series + 0.1 * torch.randn(series.shape, generator=g)
        bad = torch.rand(n, generator=g) < broken
        series[bad, HISTORY:] = 3.0 - 1.5 * series[bad, HISTORY:]
        self.x, self.y = series[:, :HISTORY], series[:, HISTORY:]
        self.quality = torch.where(bad, torch.tensor(0.02), torch.tensor(1.0))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i], self.quality[i]


class Forecaster(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(HISTORY, hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, HORIZON))

    def forward(self, x):
        return self.net(x)


class WeightedLoss:
    def __init__(self, start_epoch):
        self.start_epoch = start_epoch

    def __call__(self, forecast, target, quality, epoch):
        error = nn.functional.smooth_l1_loss(forecast, target, reduction="none")
        if epoch < self.start_epoch:
            return error.mean()
        weight = quality / quality.mean()
        return (error * weight).mean()


def evaluate(model, data):
    model.eval()
    with torch.no_grad():
        mae = (model(data.x) - data.y).abs().mean().item()
    model.train()
    return mae


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=9)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--reweight-from", type=int, default=2)
    args = p.parse_args()
    torch.manual_seed(0)
    train, clean_test = LoadSeries(960, 0, broken=0.4), LoadSeries(400, 1)
    loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    model, criterion = Forecaster(), WeightedLoss(args.reweight_from)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total = 0.0
        for x, y, q in loader:
            loss = criterion(model(x), y, q, epoch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: train {total / len(loader):.3f} clean test MAE {evaluate(model, clean_test):.3f}")


if __name__ == "__main__":
    main()
