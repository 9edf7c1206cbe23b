"""Linear probe on a pretrained, frozen backbone."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.b1 = nn.BatchNorm2d(8)
        self.c2 = nn.Conv2d(8, 32, 3, padding=1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)))
        return self.drop(F.adaptive_max_pool2d(F.relu(self.c2(x)), 2).flatten(1))


class Probe(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(128, classes)
        for p in self.backbone.parameters():
            p.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            f = self.backbone(x)
        return self.head(f)


proto = torch.rand(5, 1, 8, 8)
y = torch.randint(0, 5, (500,))
x = proto[y] + 0.2 * torch.randn(500, 1, 8, 8)
model = Probe(Backbone(), 5)
model.train()
opt = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
for epoch in range(12):
    perm = torch.randperm(500)
    tot = hit = 0
    for i in range(0, 500, 50):
        j = perm[i:i + 50]
        out = model(x[j])
        loss = F.cross_entropy(out, y[j])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
        hit += (out.argmax(1) == y[j]).sum().item()
    if epoch % 3 == 2:
        print(f'epoch {epoch} loss {tot / 10:.3f} acc {hit / 500:.3f}')
