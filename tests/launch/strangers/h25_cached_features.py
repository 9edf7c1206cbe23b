"""Three-stage fine-tuning: cached features -> new head, then the last block is thawed, BN kept in eval."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.low, self.high = block(1, 12), block(12, 24)
        self.head = nn.Linear(96, classes)

    def features(self, x):
        return self.high(self.low(x)).flatten(1)

    def forward(self, x):
        return self.head(self.features(x))


def loop(params, forward, x, y, epochs, lr):
    opt = torch.optim.Adam(params, lr=lr)
    for _ in range(epochs):
        for idx in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(forward(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item()


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return round((net(x).argmax(1) == y).float().mean().item(), 3)


def main():
    torch.manual_seed(0)
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(d.target)
    small, big = y < 5, y >= 5

    net = Net(5)
    net.train()
    loss = loop(net.parameters(), net, x[small][:700], y[small][:700], 5, 2e-3)
    print("stage 0 loss", round(loss, 4), "acc", accuracy(net, x[small][700:], y[small][700:]))

    # stage 1: other digits; backbone frozen and in eval, features computed once
    xb, yb = x[big], y[big] - 5
    net.head = nn.Linear(96, 5)
    for part in (net.low, net.high):
        part.requires_grad_(False).eval()
    with torch.no_grad():
        cached = net.features(xb[:600])
    loss = loop(net.head.parameters(), net.head, cached, yb[:600], 15, 5e-3)
    print("stage 1 loss", round(loss, 4), "acc", accuracy(net, xb[600:], yb[600:]))

    # stage 2: thaw the high block, its batch statistics stay
    net.high.requires_grad_(True)
    net.eval()
    tuned = [p for p in net.parameters() if p.requires_grad]
    loss = loop(tuned, net, xb[:600], yb[:600], 6, 1e-3)
    print("stage 2 loss", round(loss, 4), "acc", accuracy(net, xb[600:], yb[600:]))


if __name__ == "__main__":
    main()
