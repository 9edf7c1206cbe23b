"""A zero-shot classifier that encodes the class descriptions once, before the training loop.

What is wrong: `class_vectors` is computed once, so every batch shares its graph; the first backward frees it.
PyTorch says:  Trying to backward through the graph a second time
Fix:          compute `class_vectors = label_encoder(descriptions)` inside the loop: the encoder's weights
               change at every step anyway. If the encoder is meant to stay frozen: compute it under no_grad.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
images = torch.randn(256, 64)
labels = torch.randint(0, 5, (256,))
descriptions = torch.randn(5, 32)

image_encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
label_encoder = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))
parameters = [*image_encoder.parameters(), *label_encoder.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3)

class_vectors = F.normalize(label_encoder(descriptions), dim=-1)

for batch, target in zip(images.split(32), labels.split(32)):
    image_vectors = F.normalize(image_encoder(batch), dim=-1)
    similarity = image_vectors @ class_vectors.T
    loss = F.cross_entropy(similarity / 0.07, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
