# code: BS202
# variable: gate
# cause: gate[:, 0] = 1
# fix: gate = gate.clone() before line 21
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self.gate, self.value = nn.Linear(4, 6), nn.Linear(4, 6)

    def gates(self, x):
        return torch.sigmoid(self.gate(x))

    def forward(self, x):
        gate = self.gates(x)
        # the first or the last column stays open
        if self.mode == "first":
            gate[:, 0] = 1
        else:
            gate[:, -1] = 1
        return gate * self.value(x)


torch.manual_seed(0)
model = Gated("first")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
