# code: BS201
# variable: fake
# cause: loss_d = bce(D(real), ones) + bce(D(fake), zeros)
# fix: fake.detach()
import torch
from torch import nn

latent = 8
G = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, 4))
D = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)

for step in range(3):
    real = torch.randn(8, 4)
    fake = G(torch.randn(8, latent))

    opt_d.zero_grad()
    loss_d = bce(D(real), ones) + bce(D(fake), zeros)
    loss_d.backward()
    opt_d.step()

    opt_g.zero_grad()
    loss_g = bce(D(fake), ones)
    loss_g.backward()
    opt_g.step()
