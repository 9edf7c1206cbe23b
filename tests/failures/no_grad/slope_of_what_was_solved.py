# code: BS203
# variable: state
# cause: state = solved["state"]
# fix: Call state.requires_grad_()
import torch
from torch import nn


def solve(step, state, refine, turns=10):
    with torch.no_grad():
        for _ in range(turns):
            state = step(state)
    if refine:
        state = step(state)
    return {"state": state, "turns": turns}


class Potential(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.drive, self.mix = nn.Linear(2, width), nn.Linear(width, width)
        self.height = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        drive = self.drive(x)
        solved = solve(lambda s: torch.tanh(0.2 * self.mix(s) + drive), torch.zeros_like(drive), self.training)
        state = solved["state"]
        height = self.height(state).sum()
        (slope,) = torch.autograd.grad(height, state, create_graph=True)
        return slope.square().sum(dim=1)


torch.manual_seed(0)
model = Potential(6)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(3):
    x = torch.randn(8, 2)
    loss = (model(x) - x.square().sum(dim=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    print(model(torch.randn(8, 2)).mean().item())
    model.train()
