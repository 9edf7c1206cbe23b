# code: BS222
# variable: loss
# cause: return reconstruction + divergence, reconstruction, divergence
# fix: loss[0]
import torch
from torch import nn

encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])


def elbo(x):
    mean, log_variance = encoder(x).chunk(2, dim=1)
    z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
    reconstruction = nn.functional.mse_loss(decoder(z), x)
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
    return reconstruction + divergence, reconstruction, divergence


for step in range(3):
    loss = elbo(torch.randn(8, 6))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
