# code: BS203
# variable: model
# cause: p.requires_grad_(False)
# fix: for each in (model.backbone.layers[3], model.head): each.requires_grad_(True)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, depth=4, d=16):
        super().__init__()
        self.stem = nn.Linear(6, d)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(depth))

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = x + layer(x)
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = Backbone(), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


def freeze_all_but_last(model, first_trainable):
    for p in model.parameters():
        p.requires_grad_(False)
    for layer in model.backbone.layers[first_trainable:]:
        for p in layer.parameters():
            p.requires_grad_(True)


torch.manual_seed(0)
model = Net()
groups = [{"params": model.backbone.layers[3:].parameters(), "lr": 1e-4}, {"params": model.head.parameters(), "lr": 1e-3}]
optimizer = torch.optim.AdamW(groups)
freeze_all_but_last(model, first_trainable=4)
for step in range(5):
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
