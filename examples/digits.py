"""Train a small convolutional network on drawn digits: 1,800 grey images of 8 x 8 pixels, ten classes."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

GLYPHS = """
.###. ..#.. .###. .###. ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .##..
"""


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(images))), 2)  # (batch, 16, 4, 4)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)  # (batch, 32, 2, 2)
        return self.head(self.dropout(x.flatten(1)))


def load_data():
    """Draw 144 images of each digit to train with, and 36 to test with: tilted, scaled, moved, and noisy."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    glyphs = torch.tensor([[[dot == "#" for dot in row[digit]] for row in rows] for digit in range(10)])
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(10).repeat(180)

    def uniform(low, high):
        return torch.rand(len(labels), generator=random) * (high - low) + low

    tilt, width, height = uniform(-0.2, 0.2), uniform(1.0, 1.5), uniform(0.9, 1.2)
    across = torch.stack([width * tilt.cos(), -height * tilt.sin(), uniform(-0.3, 0.3)], dim=1)
    down = torch.stack([width * tilt.sin(), height * tilt.cos(), uniform(-0.2, 0.2)], dim=1)
    grid = F.affine_grid(torch.stack([across, down], dim=1), (len(labels), 1, 8, 8), align_corners=False)
    images = F.grid_sample(glyphs[labels].unsqueeze(1).float(), grid, align_corners=False)
    images = images * uniform(0.6, 1.0).view(-1, 1, 1, 1) + 0.15 * torch.randn(images.shape, generator=random)
    return TensorDataset(images[:1440], labels[:1440]), TensorDataset(images[1440:], labels[1440:])


def train_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(loader.dataset)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    correct = sum((model(images).argmax(dim=1) == labels).sum().item() for images, labels in loader)
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(0)
    train_set, test_set = load_data()
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=256)

    model = DigitNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(1, args.epochs + 1):
        loss = train_epoch(model, train_loader, optimizer)
        print(f"epoch {epoch}  loss {loss:.4f}")
    print(f"test accuracy {accuracy(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
