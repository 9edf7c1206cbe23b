import torch
import torch.nn as nn

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))

    def forward(self, x):
        return self.net(x)


G, D = Generator(), Discriminator()
optG = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
optD = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))
bce = nn.BCEWithLogitsLoss()
for it in range(1, 251):
    real = 3 + 0.7 * torch.randn(64, 1)
    z = torch.randn(64, 6)
    fake = G(z)
    D.zero_grad()
    errD = bce(D(real), torch.ones(64, 1)) + bce(D(fake.detach()), torch.zeros(64, 1))
    errD.backward()
    optD.step()
    G.zero_grad()
    errG = bce(D(fake), torch.ones(64, 1))
    errG.backward()
    optG.step()
    if it % 50 == 0:
        print(f'it {it} errD {errD.item():.3f} errG {errG.item():.3f} fake mean {fake.mean().item():.2f} std {fake.std().item():.2f}')
