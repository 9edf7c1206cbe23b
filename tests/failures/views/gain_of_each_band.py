# code: BS209
# variable: band
# cause: band *= self.gains[k]
# fix: spectrum = torch.cat([band * self.gains[k] for k, band in enumerate(spectrum.chunk(self.bands, dim=-1))], dim=-1)
import torch
from torch import nn


class Equalizer(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.bands = bands
        self.gains = nn.Parameter(torch.ones(bands))

    def forward(self, spectrum):
        for k, band in enumerate(spectrum.chunk(self.bands, dim=-1)):
            band *= self.gains[k]
        return spectrum


torch.manual_seed(0)
encoder, equalizer, head = nn.Linear(5, 12), Equalizer(3), nn.Linear(12, 2)
optimizer = torch.optim.Adam([*encoder.parameters(), *equalizer.parameters(), *head.parameters()])
for _ in range(2):
    loss = head(equalizer(encoder(torch.randn(4, 5)))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
