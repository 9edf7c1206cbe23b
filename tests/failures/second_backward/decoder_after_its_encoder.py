# code: BS201
# variable: vae_loss
# cause: total.backward()
# fix: Run lines 22 to 29 again below line 33, `encoder_optimizer.step()`
import torch
from torch import nn
from torch.nn import functional as F

encoder = nn.Linear(8, 6)
decoder = nn.Sequential(nn.Linear(3, 8), nn.Sigmoid())
critic, attributes = nn.Linear(8, 2), nn.Linear(8, 3)
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-3)


def sampled(mean, log_var):
    return mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)


def train(x, labels):
    # every loss is computed from one reconstruction
    mean, log_var = encoder(x).chunk(2, dim=1)
    z = sampled(mean, log_var)
    recon = decoder(z)
    divergence = -0.5 * torch.mean(1 + log_var - mean.pow(2) - log_var.exp())
    vae_loss = F.binary_cross_entropy(recon, x) + 0.1 * divergence
    class_loss = F.cross_entropy(critic(recon), labels)
    code = attributes(recon)
    code_loss = F.mse_loss(code, z.detach())

    encoder_optimizer.zero_grad()
    vae_loss.backward()
    encoder_optimizer.step()

    total = vae_loss + 0.1 * class_loss + 0.1 * code_loss
    decoder_optimizer.zero_grad()
    total.backward()
    decoder_optimizer.step()


for _ in range(3):
    train(torch.rand(5, 8), torch.randint(0, 2, (5,)))
