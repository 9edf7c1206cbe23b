# code: BS200
# variable: self.mix
# cause: self.mix = torch.softmax(self.mix, 0)
# fix: `mix = torch.softmax(self.mix, 0)` on line 18 and `return self.head((mix[:, None, None] * states).sum(0))` on line 19
import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, layers=3, width=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.mix = nn.Parameter(torch.ones(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        states = torch.stack([layer(x) for layer in self.layers])
        self.mix = torch.softmax(self.mix, 0)
        return self.head((self.mix[:, None, None] * states).sum(0))


torch.manual_seed(0)
model = Mixture()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(4, 6)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
