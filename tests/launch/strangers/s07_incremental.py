"""Class incremental learning: 4 classes first, later the head is widened to 8."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
centers = torch.randn(8, 20) * 0.7


def sample(n, classes):
    y = torch.randint(0, classes, (n,))
    return centers[y] + torch.randn(n, 20), y


class IncrementalNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6), nn.ReLU())
        self.classifier = nn.Linear(6, classes)

    def forward(self, x):
        return self.classifier(self.features(x))

    def grow(self, classes):
        old = self.classifier
        new = nn.Linear(old.in_features, classes)
        with torch.no_grad():
            new.weight[:old.out_features] = old.weight
            new.bias[:old.out_features] = old.bias
        self.classifier = new


class Learner:
    def __init__(self):
        self.model = IncrementalNet(4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)

    def fit(self, classes, steps):
        for i in range(steps):
            x, y = sample(32, classes)
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        with torch.no_grad():
            x, y = sample(1000, classes)
            acc = (self.model(x).argmax(1) == y).float().mean().item()
        print(f'{classes} classes: loss {loss.item():.3f} test acc {acc:.3f}')


learner = Learner()
learner.fit(4, 100)
learner.model.grow(8)
w = learner.model.classifier.weight.detach().clone()
learner.fit(8, 70)
learner.fit(8, 70)
print('new head weight change:', (learner.model.classifier.weight - w).abs().sum().item())
