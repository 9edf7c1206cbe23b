# code: BS201
# variable: pull.goal
# cause: self.goal = goal
# fix: .detach()
import torch
from torch import nn


class Pull(nn.Module):
    """How far a result is from where it should be."""

    def __init__(self, goal, rate):
        super().__init__()
        self.goal = goal
        self.rate = rate

    def forward(self, found):
        return self.rate * (found - self.goal).abs().mean()


torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
student = nn.Linear(4, 2)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
x = torch.randn(32, 4)
pull = Pull(teacher(x[:8]), rate=0.3)
for step in range(10):
    optimizer.zero_grad()
    loss = pull(student(x[:8]))
    loss.backward()
    optimizer.step()
