# code: BS200
# variable: self.decoder[-1].weight
# cause: self.decoder[-1].weight = self.encoder[0].weight.t()
# fix: torch.func.functional_call(self.decoder, {'1.weight': self.encoder[0].weight.t()}
import torch
from torch import nn


class Tied(nn.Module):
    """An autoencoder whose last layer is the first one transposed."""

    def __init__(self, width=12, code=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, code), nn.Tanh())
        self.decoder = nn.Sequential(nn.Tanh(), nn.Linear(code, width))
        self.decoder[-1].weight = self.encoder[0].weight.t()

    def forward(self, x):
        return self.decoder(self.encoder(x))


torch.manual_seed(0)
model = Tied()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.randn(48, 4) @ torch.randn(4, 12)
for batch in data.split(12):
    loss = nn.functional.mse_loss(model(batch), batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
