# code: BS203
# variable: decoded
# cause: losses["rec"] = losses["rec"] + nn.functional.mse_loss(decoded, x).item()
# fix: .item()
import torch
from torch import nn

autoencoder = nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 6))
optimizer = torch.optim.Adam(autoencoder.parameters())
losses = {"rec": 0.0}
for x in torch.randn(4, 3, 6):
    decoded = autoencoder(x)
    losses["rec"] = losses["rec"] + nn.functional.mse_loss(decoded, x).item()
mean = torch.tensor(losses["rec"] / 4)
optimizer.zero_grad()
mean.backward()
optimizer.step()
