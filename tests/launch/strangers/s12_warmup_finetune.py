"""Fine tuning: head only for the warm-up epochs, then everything."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument('--warmup', type=int, default=3)
ap.add_argument('--epochs', type=int, default=9)
ap.add_argument('--lr', type=float, default=1e-2)
args = ap.parse_args()
torch.manual_seed(4)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(5, 24)
        self.layer2 = nn.Linear(24, 24)

    def forward(self, x):
        return torch.tanh(self.layer2(torch.tanh(self.layer1(x))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


X = torch.randn(600, 5)
Y = ((X[:, 0] - X[:, 1]).abs() > 0.95).long()
model = Classifier()
for p in model.backbone.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

for epoch in range(args.epochs):
    if epoch == args.warmup:
        model.backbone.requires_grad = True
        print('-> backbone unfrozen')
    snap = model.backbone.layer1.weight.detach().clone()
    idx = torch.randperm(len(X))
    s = 0.0
    for i in range(0, len(X), 25):
        j = idx[i:i + 25]
        loss = F.cross_entropy(model(X[j]), Y[j])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        s += loss.item()
    print(f'epoch {epoch} loss {s / 24:.4f} backbone moved {(model.backbone.layer1.weight - snap).abs().max():.5f}')
