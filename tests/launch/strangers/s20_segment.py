import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = conv_block(1, 8), conv_block(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = conv_block(16, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        return self.out(self.last(torch.cat([a, self.up(b)], 1)))


def dice_loss(logits, mask):
    p = logits.sigmoid()
    return 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)


def blobs(n=8, size=16):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing='ij')
    c = torch.randint(4, 12, (n, 2, 1, 1))
    m = (((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) < 12).float()[:, None]
    return m + 0.5 * torch.randn(n, 1, size, size), m


model = TinyUNet()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
running_loss, running_dice, seen = 0.0, 0.0, 0
model.train()
for it in range(1, 251):
    img, mask = blobs()
    logits = model(img)
    loss = F.binary_cross_entropy_with_logits(logits, mask) + dice_loss(logits, mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
    running_loss += loss
    running_dice += 1 - dice_loss(logits, mask)
    seen += 1
    if it % 50 == 0:
        print(f'it {it}: avg loss {running_loss / seen:.4f} avg dice {running_dice / seen:.4f}')
