"""Transfer learning: frozen backbone first, then the last block joins with a lower rate."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def images(n, seed, kinds, size=10):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, kinds, (n,), generator=g)
    grid = torch.arange(size).float()
    angle = (y.float() * 3.14159 / kinds + (0.2 if kinds == 3 else 0.0)).view(-1, 1, 1)
    phase = 6.28 * torch.rand(n, 1, 1, generator=g)
    wave = torch.sin(1.3 * (grid.view(1, 1, -1) * angle.cos() + grid.view(1, -1, 1) * angle.sin()) + phase)
    return (wave + 1.1 * torch.randn(n, size, size, generator=g)).unsqueeze(1), y


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
        self.block2 = nn.Sequential(nn.Conv2d(16, 24, 3), nn.BatchNorm2d(24), nn.ReLU(),
                                    nn.AdaptiveAvgPool2d(2), nn.Flatten())

    def forward(self, x):
        return self.block2(self.block1(x))


class Classifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(96, classes)
        self.frozen = []

    def freeze(self, *modules):
        self.frozen = list(modules)
        for m in modules:
            m.requires_grad_(False)

    def release(self, module):
        self.frozen.remove(module)
        module.requires_grad_(True)

    def train(self, mode=True):
        super().train(mode)
        for m in self.frozen:
            m.eval()
        return self

    def forward(self, x):
        return self.head(self.backbone(x))


def run_epoch(model, opt, x, y, batch=50):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch):
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(0)
    backbone = Backbone()
    pre = Classifier(backbone, 6)
    x, y = images(1000, 0, 6)
    opt = torch.optim.Adam(pre.parameters(), lr=3e-3)
    for _ in range(4):
        run_epoch(pre, opt, x, y)
    print(f"pretraining acc {accuracy(pre, *images(400, 1, 6)):.3f}")

    model = Classifier(backbone, 3)
    model.freeze(backbone.block1, backbone.block2)
    x, y = images(500, 2, 3)
    test = images(500, 3, 3)
    opt = torch.optim.Adam(model.head.parameters(), lr=2e-3)
    for epoch in range(9):
        if epoch == 4:
            model.release(backbone.block2)
            opt.add_param_group({"params": backbone.block2.parameters(), "lr": 5e-4})
        loss = run_epoch(model, opt, x, y)
        print(f"epoch {epoch} loss {loss:.3f} acc {accuracy(model, *test):.3f}")


if __name__ == "__main__":
    main()
