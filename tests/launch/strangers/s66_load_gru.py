"""Forecast the next hour of a (standardised) load curve with a GRU."""
import numpy as np
import torch
from torch import nn

HEADS = {}


def register(name):
    def wrap(fn):
        HEADS[name] = fn
        return fn
    return wrap


@register("linear")
def linear_head(d_in):
    return nn.Linear(d_in, 1)


@register("mlp")
def mlp_head(d_in):
    layers = []
    for width in (32, 1):
        layers += [nn.Linear(d_in, width), nn.ReLU()]
        d_in = width
    return nn.Sequential(*layers)


class Standardiser:
    def fit(self, series):
        self.mean, self.std = series.mean(), series.std()
        return self

    def transform(self, series):
        return (series - self.mean) / self.std

    def inverse(self, z):
        return z * self.std + self.mean


def load_curve(hours=24 * 120, seed=2):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    day = 12 * np.sin(2 * np.pi * t / 24) + 4 * np.sin(4 * np.pi * t / 24 + 1)
    week = 5 * np.sin(2 * np.pi * t / 168)
    return (60 + day + week + rng.normal(0, 1.0, hours)).astype(np.float32)


def windows(z, length):
    x = np.lib.stride_tricks.sliding_window_view(z, length + 1)
    x = torch.from_numpy(x.copy())
    return x[:, :-1, None], x[:, -1:]


class Forecaster(nn.Module):
    def __init__(self, head="mlp", hidden=24):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.head = HEADS[head](hidden)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


def fit(model, x, y, epochs, lr=1e-2, batch=128):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        perm, total = torch.randperm(len(x)), 0.0
        for idx in perm.split(batch):
            loss = nn.functional.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        yield epoch, total / len(x)


def main():
    torch.manual_seed(4)
    raw = load_curve()
    cut = int(0.8 * len(raw))
    scaler = Standardiser().fit(raw[:cut])
    x_tr, y_tr = windows(scaler.transform(raw[:cut]), 24)
    x_te, y_te = windows(scaler.transform(raw[cut:]), 24)
    model = Forecaster()
    for epoch, loss in fit(model, x_tr, y_tr, epochs=8):
        with torch.no_grad():
            pred = scaler.inverse(model(x_te))
            true = scaler.inverse(y_te)
        print(f"epoch {epoch} mse {loss:.4f} | test MAE {(pred - true).abs().mean():.2f} MW, "
              f"predicted {pred.min():.1f}..{pred.max():.1f}, true {true.min():.1f}..{true.max():.1f}")


if __name__ == "__main__":
    main()
