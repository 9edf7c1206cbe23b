# code: BS214
# variable: left
# cause: with torch.inference_mode():
# fix: should be trained by this loss, remove line
import torch
from torch import nn


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
        self.score = nn.Bilinear(8, 8, 1)

    def forward(self, a, b):
        with torch.inference_mode():
            left = self.encoder(a)
            right = self.encoder(b)
        return self.score(left, right)


torch.manual_seed(0)
matcher = Matcher()
optimizer = torch.optim.SGD(matcher.parameters(), lr=0.1)
for _ in range(3):
    a = torch.randn(5, 6)
    loss = nn.functional.softplus(-matcher(a, a + 0.1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
