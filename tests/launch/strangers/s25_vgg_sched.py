import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader, TensorDataset


def build():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 4))


def quadrants(n):
    x = 0.3 * torch.randn(n, 1, 8, 8)
    y = torch.randint(0, 4, (n,))
    for i, c in enumerate(y.tolist()):
        k = torch.randint(0, 5, (1,)).item()
        m = torch.randint(0, 5, (1,)).item()
        pat = torch.zeros(4, 4)
        if c == 0:
            pat[0] = 1
        elif c == 1:
            pat[:, 0] = 1
        elif c == 2:
            pat.fill_diagonal_(1)
        else:
            pat[0, 0] = pat[3, 3] = pat[0, 3] = pat[3, 0] = 1
        x[i, 0, k:k + 4, m:m + 4] += pat
    return x, y


def main(args):
    torch.manual_seed(args.seed)
    train = DataLoader(TensorDataset(*quadrants(640)), batch_size=32, shuffle=True)
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = ExponentialLR(optimizer, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        total, right = 0.0, 0
        for x, y in train:
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
            right += (out.argmax(1) == y).sum().item()
        print(f'epoch {epoch} loss {total / len(train):.4f} acc {right / 640:.3f}')


if __name__ == '__main__':
    ap = argparse.ArgumentParser()
    ap.add_argument('--epochs', type=int, default=12)
    ap.add_argument('--lr', type=float, default=3e-3)
    ap.add_argument('--gamma', type=float, default=0.9, help='lr factor per epoch')
    ap.add_argument('--seed', type=int, default=0)
    main(ap.parse_args())
