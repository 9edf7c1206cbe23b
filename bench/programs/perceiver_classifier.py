"""A perceiver and rotary embeddings, with Lion as the optimizer."""

import torch
from _digest import digest
from lion_pytorch import Lion
from perceiver_pytorch import Perceiver

torch.manual_seed(0)
model = Perceiver(
    num_freq_bands=4, depth=2, max_freq=8.0, input_channels=3, num_latents=8, latent_dim=16, cross_dim_head=8,
    latent_dim_head=8, latent_heads=2, num_classes=4, weight_tie_layers=True,
)  # fmt: skip
optimizer = Lion(model.parameters(), lr=1e-4, weight_decay=1e-2)
for _ in range(20):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 8, 8, 3)), torch.randint(0, 4, (4,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
print(digest(model))
