# code: BS201
# variable: self.running_mean | model.1.running_mean
# cause: self.running_mean = self.decay * self.running_mean + (1 - self.decay) * x.mean(0)
# fix: detach
import torch
from torch import nn


class RunningCenter(nn.Module):
    """Subtracts an exponential moving average of its inputs."""

    def __init__(self, features, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("running_mean", torch.zeros(features))

    def forward(self, x):
        if self.training:
            self.running_mean = self.decay * self.running_mean + (1 - self.decay) * x.mean(0)
        return x - self.running_mean


model = nn.Sequential(nn.Linear(6, 10), RunningCenter(10), nn.Tanh(), nn.Linear(10, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(torch.randn(32, 6), torch.randn(32, 1))
loader = torch.utils.data.DataLoader(data, batch_size=8)

for inputs, targets in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
