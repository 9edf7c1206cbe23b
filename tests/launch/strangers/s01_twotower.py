"""Image + caption matching, small two tower classifier."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import TensorDataset, DataLoader

parser = argparse.ArgumentParser()
parser.add_argument('--epochs', type=int, default=6)
parser.add_argument('--batch-size', type=int, default=32)
parser.add_argument('--lr', type=float, default=5e-3)
args = parser.parse_args()
torch.manual_seed(0)


def make_data(n=640):
    img = torch.randn(n, 1, 8, 8)
    txt = torch.randint(0, 50, (n, 7))
    topic = (txt[:, -1] < 25).long()
    bright = torch.randint(0, 2, (n,))
    img = img + (bright.float() - 0.5)[:, None, None, None]
    return img, txt, topic * 2 + bright


class ImageTower(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16, d)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x)).mean(dim=(2, 3))
        return self.fc(x)


class TextTower(nn.Module):
    def __init__(self, vocab=50, d=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, 24)
        self.gru = nn.GRU(24, d, batch_first=True)

    def forward(self, t):
        _, h = self.gru(self.embed(t))
        return h[-1]


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = ImageTower()
        self.text = TextTower()
        self.head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, img, txt):
        a = self.image(img)
        b = torch.tensor(self.text(txt), dtype=torch.float32)
        return self.head(torch.cat([a, b], dim=1))


img, txt, y = make_data()
loader = DataLoader(TensorDataset(img, txt, y), batch_size=args.batch_size, shuffle=True)
model = TwoTower()
opt = torch.optim.Adam(model.parameters(), lr=args.lr)
before = model.text.embed.weight.clone()
for epoch in range(args.epochs):
    hits = tot = 0
    lsum = 0.0
    for i, t, target in loader:
        opt.zero_grad()
        out = model(i, t)
        loss = F.cross_entropy(out, target)
        loss.backward()
        opt.step()
        hits += (out.argmax(1) == target).sum().item()
        tot += len(target)
        lsum += loss.item() * len(target)
    print(f'epoch {epoch} loss {lsum / tot:.4f} acc {hits / tot:.3f}')
print('embedding moved by', (model.text.embed.weight - before).abs().max().item())
