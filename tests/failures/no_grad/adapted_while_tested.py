# code: BS203
# variable: entropy
# cause: with torch.no_grad():
# fix: put `@torch.enable_grad()` above line
import torch
import torch.nn as nn
import torch.nn.functional as F


class TTAModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.body(self.norm(x))

    def adapt(self, x, rounds=2):
        opt = torch.optim.SGD(self.norm.parameters(), lr=1e-2)
        for _ in range(rounds):
            p = self(x.detach()).softmax(1)
            entropy = -(p * p.clamp(min=1e-8).log()).sum(1).mean()
            opt.zero_grad()
            entropy.backward()
            opt.step()
        return self(x)

    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def test_step(self, batch):
        x, y = batch
        return (self.adapt(x).argmax(1) == y).float().mean()


class Runner:
    def __init__(self, epochs):
        self.epochs = epochs

    def fit(self, model, data):
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for _ in range(self.epochs):
            for batch in data:
                opt.zero_grad()
                model.training_step(batch).backward()
                opt.step()

    def test(self, model, data):
        scores = []
        with torch.no_grad():
            for batch in data:
                scores.append(model.test_step(batch))
        return torch.stack(scores).mean().item()


torch.manual_seed(0)
data = [(torch.randn(32, 8), torch.randint(0, 4, (32,))) for _ in range(5)]
runner, model = Runner(3), TTAModel()
runner.fit(model, data)
print(runner.test(model, data))
