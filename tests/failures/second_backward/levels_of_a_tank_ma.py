# code: BS201
# variable: levels
# cause: self.levels["low"] = torch.tanh(self.low(x) + level)
# fix: each.empty()
import torch
from torch import nn


class Tank(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.low = nn.Linear(size, size)
        self.size, self.levels = size, {}
        self.empty()

    def empty(self):
        self.levels.update(low=torch.zeros(self.size), capacity=5.0)

    def forward(self, hours):
        flows = []
        for x in hours:
            level = self.levels["low"].clamp(max=self.levels["capacity"])
            self.levels["low"] = torch.tanh(self.low(x) + level)
            flows.append(self.levels["low"])
        return torch.stack(flows)


torch.manual_seed(0)
plant = nn.Sequential(Tank(3), Tank(3))
optimizer = torch.optim.Adam(plant.parameters(), lr=0.01)
days = [(torch.randn(4, 3), torch.rand(4, 3)) for _ in range(3)]
for hours, wanted in days:
    loss = (plant(hours) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
