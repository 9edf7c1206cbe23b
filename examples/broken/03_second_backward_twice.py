"""A GAN whose two losses share one forward pass of the generator, and both call backward.

What is wrong: `d_loss` gets `fake` attached to its graph, so its backward runs through the generator and frees it;
               `g_loss` then needs the same graph.
PyTorch says:  Trying to backward through the graph a second time
Fix:          train the discriminator on `fake.detach()`: its loss must not train the generator.
"""

import torch
import torch.nn.functional as F
from torch import nn


class GANTrainer:
    def __init__(self):
        self.generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
        self.g_optimizer = torch.optim.Adam(self.generator.parameters(), lr=2e-4)
        self.d_optimizer = torch.optim.Adam(self.discriminator.parameters(), lr=2e-4)

    def train_step(self, real):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = self.generator(torch.randn(len(real), 8))

        d_real = F.binary_cross_entropy_with_logits(self.discriminator(real), ones)
        d_fake = F.binary_cross_entropy_with_logits(self.discriminator(fake), zeros)
        d_loss = d_real + d_fake
        self.d_optimizer.zero_grad()
        d_loss.backward()
        self.d_optimizer.step()

        g_loss = F.binary_cross_entropy_with_logits(self.discriminator(fake), ones)
        self.g_optimizer.zero_grad()
        g_loss.backward()
        self.g_optimizer.step()


torch.manual_seed(0)
trainer = GANTrainer()
for _ in range(10):
    trainer.train_step(real=torch.randn(64, 2) * 0.5 + 2)
