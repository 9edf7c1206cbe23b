"""Adversarial training after a clean warm-up."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class FastAttack:
    def __init__(self, model, eps=0.2, alpha=0.25, steps=1):
        self.model, self.eps, self.alpha, self.steps = model, eps, alpha, steps

    def __call__(self, x, y):
        delta = torch.empty_like(x).uniform_(-self.eps, self.eps)
        for _ in range(self.steps):
            delta.requires_grad_(True)
            objective = -F.cross_entropy(self.model(x + delta), y)
            objective.backward()
            with torch.no_grad():
                delta = (delta - self.alpha * delta.grad.sign()).clamp(-self.eps, self.eps)
        return (x + delta).detach()


def make_images(n, seed):
    g = torch.Generator().manual_seed(seed)
    templates = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(42))
    y = torch.randint(0, 5, (n,), generator=g)
    return TensorDataset(templates[y] + 0.3 * torch.randn(n, 1, 8, 8, generator=g), y)


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.fc = nn.Linear(24 * 16, 5)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.fc(x.flatten(1))


def accuracy(model, loader, attack=None):
    model.eval()
    correct = total = 0
    for x, y in loader:
        if attack is not None:
            x = attack(x, y)
        with torch.no_grad():
            correct += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    return correct / total


def train_one_epoch(model, loader, optimizer, attack=None):
    model.train()
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        if attack is not None:
            x = attack(x, y)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    return running / len(loader)


def main(epochs=7, warmup_epochs=1, lr=0.02):
    torch.manual_seed(0)
    train = DataLoader(make_images(1200, 0), batch_size=48, shuffle=True)
    test = DataLoader(make_images(400, 1), batch_size=200)
    model = SmallCNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    attack = FastAttack(model)
    for epoch in range(epochs):
        loss = train_one_epoch(model, train, optimizer, attack if epoch >= warmup_epochs else None)
        print(f"epoch {epoch}: loss {loss:.3f} clean {accuracy(model, test):.3f} "
              f"robust {accuracy(model, test, attack):.3f}")


if __name__ == "__main__":
    main()
