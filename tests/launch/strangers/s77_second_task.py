"""Add a second task on top of a frozen vision backbone; the first task must keep working."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class Backbone(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.block1 = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2))
        self.block2 = nn.Sequential(nn.Conv2d(width, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))

    def forward(self, x):
        return self.block2(self.block1(x)).flatten(1)


class TwoTaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.digit = nn.Linear(128, 10)
        self.bright = nn.Linear(128, 2)

    def forward(self, x, task):
        return getattr(self, task)(self.backbone(x))


class MultiStage:
    def __init__(self, net):
        self.net = net

    def set_trainable(self, *names):
        for name, child in self.net.named_children():
            for p in child.parameters():
                p.requires_grad_(name in names)

    def train(self, task, x, y, epochs, lr, watch):
        opt = torch.optim.Adam((p for p in self.net.parameters() if p.requires_grad), lr=lr)
        for epoch in range(epochs):
            self.net.train()
            for idx in torch.randperm(len(x)).split(64):
                loss = F.cross_entropy(self.net(x[idx], task), y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
            scores = {name: self.score(name, *data) for name, data in watch.items()}
            print(f"[{task}] epoch {epoch} loss {loss.item():.4f}", {k: round(v, 3) for k, v in scores.items()})

    @torch.no_grad()
    def score(self, task, x, y):
        self.net.eval()
        return (self.net(x, task).argmax(1) == y).float().mean().item()


def photographs(images, seed):
    """The same digits under dim or glaring light, as the second camera sees them."""
    g = torch.Generator().manual_seed(seed)
    bright = torch.randint(0, 2, (len(images),), generator=g)
    gain = torch.where(bright == 1, 3.0, 1.5).view(-1, 1, 1, 1)
    return images * gain + 1.5 + 0.3 * torch.randn(images.shape, generator=g), bright


def main():
    torch.manual_seed(0)
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(d.target)
    digit_test = (x[1400:], y[1400:])
    net = TwoTaskNet()
    stages = MultiStage(net)
    stages.train("digit", x[:1400], y[:1400], 6, 2e-3, {"digit": digit_test})

    photos, bright = photographs(x[:1400], 1)
    photo_test = photographs(x[1400:], 2)
    stages.set_trainable("bright")
    stages.train("bright", photos, bright, 5, 2e-3, {"bright": photo_test, "digit": digit_test})


if __name__ == "__main__":
    main()
