"""Cross-validated digit classifier: one fresh copy of a template network per fold."""
import copy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    folds: int = 3
    epochs: int = 6
    batch_size: int = 64
    lr: float = 3e-3
    hidden: int = 64
    seed: int = 7


class DigitNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


class FoldTrainer:
    def __init__(self, template, cfg):
        self.template = template
        self.cfg = cfg
        self.model = template
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)

    def new_fold(self):
        # every fold has to start from the very same initial weights
        self.model = copy.deepcopy(self.template)
        self.optimizer.state.clear()

    def train_epoch(self, loader):
        self.model.train()
        total, n = 0.0, 0
        for images, labels in loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(labels)
            n += len(labels)
        return total / n

    @torch.no_grad()
    def evaluate(self, images, labels):
        self.model.eval()
        return (self.model(images).argmax(1) == labels).float().mean().item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
    labels = torch.tensor(digits.target)
    trainer = FoldTrainer(DigitNet(cfg.hidden), cfg)
    scores = []
    splits = KFold(cfg.folds, shuffle=True, random_state=cfg.seed).split(np.arange(len(labels)))
    for fold, (train_idx, val_idx) in enumerate(splits):
        trainer.new_fold()
        loader = DataLoader(TensorDataset(images[train_idx], labels[train_idx]),
                            batch_size=cfg.batch_size, shuffle=True)
        for epoch in range(cfg.epochs):
            loss = trainer.train_epoch(loader)
            acc = trainer.evaluate(images[val_idx], labels[val_idx])
            print(f"fold {fold} epoch {epoch} loss {loss:.4f} val acc {acc:.3f}")
        scores.append(acc)
    print("mean accuracy", round(float(np.mean(scores)), 3))


if __name__ == "__main__":
    main()
