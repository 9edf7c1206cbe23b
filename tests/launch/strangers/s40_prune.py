"""Iterative magnitude pruning with fine-tuning between the rounds."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import make_classification
from torch.utils.data import DataLoader, TensorDataset


def get_loaders(batch_size):
    x, y = make_classification(n_samples=2600, n_features=32, n_informative=16, n_redundant=4,
                               n_classes=5, n_clusters_per_class=2, class_sep=1.3, random_state=2)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    train = TensorDataset(x[:2000], y[:2000])
    test = TensorDataset(x[2000:], y[2000:])
    return DataLoader(train, batch_size, shuffle=True), DataLoader(test, 600)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(32, 96)
        self.fc2 = nn.Linear(96, 96)
        self.fc3 = nn.Linear(96, 5)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class MagnitudePruner:
    def __init__(self, model, layers=("fc1", "fc2")):
        self.model = model
        self.layers = layers
        self.masks = {}

    def prune(self, amount):
        for name in self.layers:
            layer = getattr(self.model, name)
            w = layer.weight.detach()
            threshold = w.abs().flatten().quantile(amount)
            mask = (w.abs() > threshold).float()
            layer.weight = nn.Parameter(w * mask)
            self.masks[name] = mask

    @torch.no_grad()
    def apply_masks(self):
        for name, mask in self.masks.items():
            getattr(self.model, name).weight.mul_(mask)

    def density(self):
        w = [getattr(self.model, n).weight for n in self.layers]
        return sum((t != 0).sum().item() for t in w) / sum(t.numel() for t in w)


def train_epoch(model, pruner, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        pruner.apply_masks()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def test(model, loader):
    model.eval()
    x, y = next(iter(loader))
    return (model(x).argmax(1) == y).float().mean().item()


def run(epochs=9, schedule={3: 0.8, 6: 0.92}, lr=3e-3):
    torch.manual_seed(0)
    train_loader, test_loader = get_loaders(100)
    model = Classifier()
    pruner = MagnitudePruner(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        if epoch in schedule:
            pruner.prune(schedule[epoch])
            print(f"pruned to density {pruner.density():.2f}, acc {test(model, test_loader):.3f}")
        loss = train_epoch(model, pruner, train_loader, optimizer)
        print(f"epoch {epoch} loss {loss:.3f} acc {test(model, test_loader):.3f}")


if __name__ == "__main__":
    run()
