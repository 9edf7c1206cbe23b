"""Small convnet on synthetic texture images with validation during the epoch."""
import logging
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
log = logging.getLogger("train")


def textures(n, seed, size=12, classes=6):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    angle = (y.float() * 3.14159 / classes).view(-1, 1, 1)
    phase = 6.28 * torch.rand(n, 1, 1, generator=g)
    grid = torch.arange(size).float()
    xx, yy = grid.view(1, 1, -1), grid.view(1, -1, 1)
    img = torch.sin(1.4 * (xx * angle.cos() + yy * angle.sin()) + phase)
    img = img + 1.4 * torch.randn(n, size, size, generator=g)
    return 40.0 * img.unsqueeze(1) + 110.0, y


def conv_block(c_in, c_out):
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
                         nn.BatchNorm2d(c_out), nn.ReLU(), nn.MaxPool2d(2))


class ConvNet(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.features = nn.Sequential(conv_block(1, 16), conv_block(16, 32))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(32 * 9, 64),
                                        nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, classes))

    def forward(self, x):
        return self.classifier(self.features(x))


class Trainer:
    def __init__(self, model, train_loader, val_loader, lr=2e-3, eval_every=12):
        self.model = model
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
        self.eval_every = eval_every
        self.iteration = 0
        self.best = 0.0

    def validate(self):
        self.model.eval()
        hits, count = 0, 0
        with torch.no_grad():
            for x, y in self.val_loader:
                hits += (self.model(x).argmax(1) == y).sum().item()
                count += len(y)
        return hits / count

    def training_step(self, x, y):
        loss = self.criterion(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, epochs):
        self.model.train()
        for epoch in range(epochs):
            losses = []
            for x, y in self.train_loader:
                losses.append(self.training_step(x, y))
                self.iteration += 1
                if self.iteration % self.eval_every == 0:
                    self.best = max(self.best, self.validate())
            log.info("epoch %2d  train loss %.3f  val acc %.3f", epoch,
                     sum(losses) / len(losses), self.validate())
        log.info("best %.3f", self.best)


def main():
    torch.manual_seed(5)
    train_loader = DataLoader(TensorDataset(*textures(180, 0)), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(*textures(600, 1)), batch_size=300)
    Trainer(ConvNet(), train_loader, val_loader).fit(epochs=32)


if __name__ == "__main__":
    main()
