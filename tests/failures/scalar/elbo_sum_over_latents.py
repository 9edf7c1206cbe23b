# code: BS212
# variable: vae.loss
# cause: kl = -0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp(), dim=1)
# fix: mean
import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(8, 4)
        self.decode = nn.Linear(2, 8)

    def loss(self, x):
        mu, log_var = self.encode(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * log_var).exp()
        rec = nn.functional.mse_loss(self.decode(z), x)
        kl = -0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp(), dim=1)
        return rec + kl


vae = VAE()
vae.loss(torch.randn(6, 8)).backward()
