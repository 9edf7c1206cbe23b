"""A GAN that computes both losses first, and then updates one network after the other.

What is wrong: `d_optimizer.step()` changes the discriminator's weights in place, between the forward and the
               backward of `g_loss`, which saved those very weights.
PyTorch says:  one of the variables needed for gradient computation has been modified by an inplace operation
Fix:          compute `g_loss` after `d_optimizer.step()`, with a new forward pass of the discriminator.
"""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3)

    for step in range(10):
        real = torch.randn(64, 2) * 0.5 + 2
        fake = generator(torch.randn(64, 8))
        d_loss = discriminator(fake.detach()).mean() - discriminator(real).mean()
        g_loss = -discriminator(fake).mean()

        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()

        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()


if __name__ == "__main__":
    main()
