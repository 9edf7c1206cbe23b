# code: BS202
# variable: vq.codes
# cause: self.codes[k].mul_(0.99).add_(0.01 * z[chosen == k].mean(0))
# fix: self.codes.clone()
import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, number=6, width=4):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, width), nn.Linear(width, 8)
        self.register_buffer("codes", torch.randn(number, width))

    def average(self, z, chosen):
        for k in chosen.unique():
            self.codes[k].mul_(0.99).add_(0.01 * z[chosen == k].mean(0))

    def forward(self, x):
        z = self.encoder(x)
        scores = z @ self.codes.t()
        chosen = scores.argmax(1)
        self.average(z.detach(), chosen)
        return self.decoder(z + (self.codes[chosen] - z).detach()), scores.logsumexp(1).mean()


torch.manual_seed(0)
vq = Quantizer()
optimizer = torch.optim.Adam(vq.parameters())
x = torch.randn(32, 8)

for _ in range(3):
    restored, spread = vq(x)
    loss = (restored - x).square().mean() + 0.1 * spread
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
