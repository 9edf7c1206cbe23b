"""Sharpness-aware minimisation: climb to the worst neighbour, take its gradient, step from the old place."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_wine


class SAM:
    def __init__(self, params, base, rho=0.05):
        self.params = list(params)
        self.base = base(self.params)
        self.rho = rho

    @torch.no_grad()
    def climb(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        self.offsets = [self.rho * p.grad / (norm + 1e-12) for p in self.params]
        for p, e in zip(self.params, self.offsets):
            p.add_(e)
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for p, e in zip(self.params, self.offsets):
            p.sub_(e)
        self.base.step()
        self.zero_grad()

    def zero_grad(self):
        self.base.zero_grad(set_to_none=True)


def load(seed=0):
    d = load_wine()
    x = torch.tensor(d.data, dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    return x[order], torch.tensor(d.target)[order]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x):
        return self.layers(x)


def train(model, x, y, epochs=30):
    sam = SAM(model.parameters(), lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9))
    for epoch in range(epochs):
        total = 0.0
        for idx in torch.randperm(120).split(30):
            closure = lambda: F.cross_entropy(model(x[idx]), y[idx])
            first = closure()
            first.backward()
            sam.climb()
            closure().backward()
            sam.descend()
            total += first.item()
        if epoch % 5 == 4:
            with torch.no_grad():
                acc = (model(x[120:]).argmax(1) == y[120:]).float().mean().item()
            print(f"epoch {epoch + 1} loss {total / 4:.4f} test {acc:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train(Classifier(), *load())
