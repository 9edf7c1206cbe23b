# code: BS214
# variable: latent
# cause: with torch.inference_mode():
# fix: clone
import torch
from torch import nn

encoder, decoder = nn.Linear(4, 2), nn.Linear(2, 4)
with torch.inference_mode():
    latent = encoder(torch.randn(1, 4))
latent.requires_grad_(True)
optimizer = torch.optim.Adam([latent], lr=0.1)
