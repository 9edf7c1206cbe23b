"""Small image autoencoder with a validation log kept for the learning curves."""
import resource
from collections import defaultdict

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def shapes(n, size=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    cx, cy = torch.rand(n, 1, 1, generator=g) * size, torch.rand(n, 1, 1, generator=g) * size
    r = 4 + 6 * torch.rand(n, 1, 1, generator=g)
    return (((xx - cx) ** 2 + (yy - cy) ** 2) < r ** 2).float().unsqueeze(1)


class AutoEncoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.up = nn.Sequential(
            nn.ConvTranspose2d(width, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
        )

    def forward(self, x):
        return self.up(self.down(x))


class Journal:
    """Collects whatever the trainer tells it; curves are drawn at the end."""

    def __init__(self):
        self.series = defaultdict(list)

    def log(self, **values):
        for name, value in values.items():
            self.series[name].append(value)

    def last_mean(self, name, k):
        tail = self.series[name][-k:]
        return float(sum(tail) / len(tail))


class Trainer:
    def __init__(self, model, train, valid, lr=2e-3):
        self.model = model
        self.train_loader = DataLoader(train, batch_size=64, shuffle=True)
        self.valid_loader = DataLoader(valid, batch_size=64)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.criterion = nn.BCEWithLogitsLoss()
        self.journal = Journal()

    def train_epoch(self):
        self.model.train()
        for (x,) in self.train_loader:
            loss = self.criterion(self.model(x), x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.journal.log(train=loss.item())

    def validate(self):
        self.model.eval()
        for (x,) in self.valid_loader:
            self.journal.log(valid=self.criterion(self.model(x), x))

    def fit(self, epochs):
        for epoch in range(epochs):
            self.train_epoch()
            self.validate()
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"epoch {epoch:2d} train {self.journal.last_mean('train', len(self.train_loader)):.4f} "
                  f"valid {self.journal.last_mean('valid', len(self.valid_loader)):.4f} memory {rss:.0f} MB")


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(AutoEncoder(), TensorDataset(shapes(384, seed=0)), TensorDataset(shapes(384, seed=1)))
    trainer.fit(14)
