"""A vector quantized autoencoder: a straight-through estimator and a codebook by moving averages."""

import torch
from _digest import digest
from torch import nn
from vector_quantize_pytorch import VectorQuantize

torch.manual_seed(0)
encoder = nn.Sequential(nn.Conv2d(1, 8, 4, stride=2, padding=1), nn.GELU(), nn.Conv2d(8, 8, 4, stride=2, padding=1))
quantizer = VectorQuantize(dim=8, codebook_size=16, accept_image_fmap=True, decay=0.9)
decoder = nn.Sequential(nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(8, 1, 4, 2, 1))
optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
images = torch.rand(64, 1, 16, 16)
for _step in range(40):
    x = images[torch.randint(0, 64, (16,))]
    quantized, indices, commitment = quantizer(encoder(x))
    loss = (decoder(quantized) - x).abs().mean() + 0.1 * commitment.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item(), indices.unique().numel())
print(digest(encoder, quantizer, decoder))
