"""Classify synthetic sounds (tone, chirp, noise burst) from log-spectra."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

RATE, LENGTH = 4000, 1024


def synth(kind, rng):
    t = np.arange(LENGTH) / RATE
    f = rng.uniform(200, 900)
    if kind == 0:
        wave = np.sin(2 * np.pi * f * t)
    elif kind == 1:
        wave = np.sin(2 * np.pi * (f * t + 1500 * t ** 2))
    else:
        wave = rng.normal(size=LENGTH) * np.exp(-((t - t.mean()) ** 2) / 0.002)
    return (wave + 0.5 * rng.normal(size=LENGTH)).astype(np.float32)


class SoundDataset(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 3, n)
        waves = np.stack([synth(k, rng) for k in self.labels])
        spec = np.abs(np.fft.rfft(waves.reshape(n, 8, 128) * np.hanning(128), axis=-1))
        self.spec = np.log(spec + 1e-3).astype(np.float32)      # (n, 8 frames, 65 bins)
        self.mean = self.spec.mean(axis=(0, 1))
        self.std = self.spec.std(axis=(0, 1))

    def normalise(self, item):
        item -= self.mean
        item /= self.std
        return item

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.normalise(self.spec[i])), int(self.labels[i])


class SoundNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(65, 32, 3, padding=1)
        self.conv2 = nn.Conv1d(32, 32, 3, padding=1)
        self.fc = nn.Linear(32, 3)

    def forward(self, x):
        h = F.relu(self.conv1(x.transpose(1, 2)))
        h = F.relu(self.conv2(h))
        return self.fc(h.mean(-1))


class Runner:
    def __init__(self, model, train_set, valid_set):
        self.model = model
        self.train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
        self.valid_loader = DataLoader(valid_set, batch_size=100)
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(self):
        self.model.train()
        losses, absmax = [], 0.0
        for x, y in self.train_loader:
            loss = F.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            losses.append(loss.item())
            absmax = max(absmax, x.abs().max().item())
        return np.mean(losses), absmax

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = [(self.model(x).argmax(1) == y).float() for x, y in self.valid_loader]
        return torch.cat(hits).mean().item()


def main():
    torch.manual_seed(0)
    runner = Runner(SoundNet(), SoundDataset(600, 0), SoundDataset(200, 1))
    for epoch in range(12):
        loss, absmax = runner.train()
        print(f"epoch {epoch:2d} loss {loss:.4f} valid acc {runner.validate():.3f} largest input {absmax:.1f}")


if __name__ == "__main__":
    main()
