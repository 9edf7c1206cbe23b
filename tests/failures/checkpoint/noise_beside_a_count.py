# code: BS210
# variable: Blur.blurred
# cause: width = int(self.rng.integers(1, 4))
# fix: Draw before the checkpoint and pass the values as arguments
import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Blur(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.rng = nn.Linear(8, 8), np.random.default_rng(1)

    def blurred(self, x):
        width = int(self.rng.integers(1, 4))
        noise = torch.as_tensor(self.rng.normal(0.0, 0.1, size=len(x)), dtype=x.dtype)
        h = torch.cat([x + noise[:, None]] * width)
        return torch.relu(self.mix(h)).mean()

    def forward(self, x):
        return checkpoint(self.blurred, x, use_reentrant=False)


model = Blur()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 8))
    loss.backward()
    optimizer.step()
