import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class SmallResNet(nn.Module):
    def __init__(self, c=12, n=3):
        super().__init__()
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(c)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(c, n)

    def forward(self, x):
        x = F.relu(self.bn1(self.stem(x)))
        x = x + F.relu(self.bn2(self.conv2(x)))
        return self.fc(self.drop(x.mean((2, 3))))


class Trainer:
    def __init__(self, model, train_dl, val_dl, lr=0.02):
        self.model, self.train_dl, self.val_dl = model, train_dl, val_dl
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def validate(self):
        self.model.eval()
        ok = n = 0
        with torch.no_grad():
            for x, y in self.val_dl:
                ok += (self.model(x).argmax(1) == y).sum().item()
                n += len(y)
        return ok / n

    def fit(self, epochs):
        self.model.train()
        for ep in range(epochs):
            run = 0.0
            for x, y in self.train_dl:
                loss = F.cross_entropy(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                run += loss.item()
            print(f'[{ep}] train {run / len(self.train_dl):.4f} val acc {self.validate():.3f} training={self.model.training}')


if __name__ == '__main__':
    torch.manual_seed(0)
    y = torch.randint(0, 3, (960,))
    freq = torch.tensor([0.5, 1.2, 2.2])[y]
    grid = torch.arange(10.0)
    x = torch.sin(freq[:, None] * grid + 6 * torch.rand(960, 1))[:, None, None, :].repeat(1, 1, 10, 1)
    x = x + 0.8 * torch.randn_like(x) + 1.0
    tr, va = random_split(TensorDataset(x, y), [768, 192])
    Trainer(SmallResNet(), DataLoader(tr, 16, shuffle=True), DataLoader(va, 64)).fit(5)
