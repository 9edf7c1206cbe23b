"""Class-incremental training: new classes arrive in a second session."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_session(classes, n_per_class, seed, dim=24):
    g = torch.Generator().manual_seed(seed)
    protos = torch.randn(12, 3, dim, generator=torch.Generator().manual_seed(0))
    xs, ys = [], []
    for c in classes:
        which = torch.randint(0, 3, (n_per_class,), generator=g)
        xs.append(protos[c][which] + 0.8 * torch.randn(n_per_class, dim, generator=g))
        ys.append(torch.full((n_per_class,), c))
    return torch.cat(xs), torch.cat(ys)


class Net(nn.Module):
    def __init__(self, dim=24, width=64, n_classes=4):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(dim, width), nn.ReLU(),
                                      nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, n_classes)

    def forward(self, x):
        return self.head(self.features(x))

    def grow(self, n_new):
        """Make room for n_new classes while keeping what the head has learnt."""
        old = self.head
        head = nn.Linear(old.in_features, old.out_features + n_new)
        with torch.no_grad():
            head.weight[:old.out_features] = old.weight
            head.bias[:old.out_features] = old.bias
        self.head = head


class IncrementalLearner:
    def __init__(self, first_classes, lr=0.05, backbone_lr=0.002):
        self.net = Net(n_classes=len(first_classes))
        self.seen = list(first_classes)
        self.memory = []
        self.opt = torch.optim.SGD([
            {"params": self.net.features.parameters(), "lr": backbone_lr * 10},
            {"params": self.net.head.parameters(), "lr": lr},
        ], momentum=0.9)
        self.backbone_lr = backbone_lr

    def remember(self, x, y, per_class=40):
        for c in y.unique():
            keep = (y == c).nonzero().squeeze(1)[:per_class]
            self.memory.append((x[keep], y[keep]))

    def learn(self, x, y, epochs, batch=64):
        if self.memory:
            x = torch.cat([x] + [m[0] for m in self.memory])
            y = torch.cat([y] + [m[1] for m in self.memory])
        for epoch in range(epochs):
            total = 0.0
            for idx in torch.randperm(len(x)).split(batch):
                loss = F.cross_entropy(self.net(x[idx]), y[idx])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item() * len(idx)
            print(f"   epoch {epoch} loss {total / len(x):.3f}")

    def next_session(self, classes):
        self.net.grow(len(classes))
        self.seen += list(classes)
        self.opt.param_groups[0]["lr"] = self.backbone_lr

    @torch.no_grad()
    def accuracy(self, classes, seed=77):
        x, y = make_session(classes, 100, seed)
        return (self.net(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(0)
    base, novel = [0, 1, 2, 3], [4, 5, 6, 7]
    learner = IncrementalLearner(base)
    x, y = make_session(base, 200, seed=1)
    print("session 1")
    learner.learn(x, y, epochs=6)
    learner.remember(x, y)
    print(f"base acc {learner.accuracy(base):.3f}")

    learner.next_session(novel)
    x, y = make_session(novel, 200, seed=2)
    print("session 2")
    learner.learn(x, y, epochs=8)
    print(f"base acc {learner.accuracy(base):.3f}  novel acc {learner.accuracy(novel):.3f}")


if __name__ == "__main__":
    main()
