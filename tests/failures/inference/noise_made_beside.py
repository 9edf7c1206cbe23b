# code: BS214
# variable: noise
# cause: with torch.inference_mode():
# fix: Use torch.no_grad() instead of torch.inference_mode() on line 18
import torch
from torch import nn

torch.manual_seed(0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.guess = nn.Linear(5, 5)
        self.scale = nn.Linear(5, 5)

    def forward(self, x):
        with torch.inference_mode():
            strength = self.scale(x).abs().mean()
            noise = torch.randn(5).mul(0.1)
        return self.guess(x + noise) * noise, strength


model = Denoiser()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 5)
for step in range(4):
    out, strength = model(x)
    loss = (out * strength - x).square().mean() + (model.scale(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
