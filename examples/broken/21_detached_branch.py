"""A model with two towers, one of which is cut off by `.detach()`.

What is wrong: `.detach()` ends the graph there, so the text tower gets no gradient. It is in the optimizer, yet
               it stays at its random start while the image tower adapts to it.
PyTorch says:  nothing
Fix:          remove `.detach()`. If the text tower is meant to be frozen: say so with `requires_grad_(False)`
               and leave it out of the optimizer.
"""

import torch
import torch.nn.functional as F
from torch import nn


class TwoTowers(nn.Module):
    def __init__(self, image_features, text_features, width=16):
        super().__init__()
        self.image_tower = nn.Linear(image_features, width)
        self.text_tower = nn.Linear(text_features, width)

    def forward(self, images, texts):
        image_vectors = F.normalize(self.image_tower(images), dim=-1)
        text_vectors = F.normalize(self.text_tower(texts), dim=-1).detach()
        return image_vectors @ text_vectors.T


torch.manual_seed(0)
images, texts = torch.randn(32, 24), torch.randn(32, 12)
model = TwoTowers(24, 12)
start = {name: p.clone() for name, p in model.named_parameters()}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(50):
    loss = F.cross_entropy(model(images, texts) / 0.1, torch.arange(32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for name, parameter in model.named_parameters():
    print(f"{name} moved by {(parameter - start[name]).norm().item():.3f}")
