# code: BS212
# variable: loss
# cause: rough = (out[:, 1:] - out[:, :-1]).abs().sum(dim=1)
# fix: .sum(dim=1).mean()
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters())

for step in range(3):
    x = torch.randn(5, 8)
    out = model(x)
    fit = criterion(out, x)
    rough = (out[:, 1:] - out[:, :-1]).abs().sum(dim=1)
    loss = fit + 0.1 * rough + 1e-3 * torch.norm(model[0].weight)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
