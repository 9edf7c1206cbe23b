"""SVI: a variational autoencoder with amortized inference."""

import pyro
import torch
from _digest import digest
from pyro.distributions import Bernoulli, Normal
from pyro.infer import SVI, TraceMeanField_ELBO
from torch import nn

pyro.set_rng_seed(0)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.Softplus(), nn.Linear(32, 32))

    def model(self, x):
        pyro.module("decoder", self.decoder)
        with pyro.plate("data", len(x)):
            z = pyro.sample("latent", Normal(torch.zeros(len(x), 4), 1.0).to_event(1))
            pyro.sample("obs", Bernoulli(logits=self.decoder(z)).to_event(1), obs=x)

    def guide(self, x):
        pyro.module("encoder", self.encoder)
        with pyro.plate("data", len(x)):
            loc, scale = self.encoder(x).chunk(2, dim=-1)
            pyro.sample("latent", Normal(loc, nn.functional.softplus(scale) + 1e-4).to_event(1))


vae = VAE()
svi = SVI(vae.model, vae.guide, pyro.optim.ClippedAdam({"lr": 1e-3}), TraceMeanField_ELBO())
data = (torch.rand(256, 32) > 0.7).float()
for epoch in range(5):
    total = sum(svi.step(batch) for batch in data.split(32))
    print(epoch, total)
print(digest(vae))
