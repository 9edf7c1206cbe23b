# code: BS203
# variable: loss
# cause: with torch.no_grad():
# fix: Remove line
# or: with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
import torch
from torch import nn

encoder = nn.Sequential(nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, 3))
decoder = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 10))
optimizer = torch.optim.Adam(encoder.parameters())


def reconstruct(x):
    with torch.no_grad():
        code = encoder(x)
        return code, decoder(code)


for x in torch.randn(3, 4, 10):
    code, y = reconstruct(x)
    loss = ((x - y) ** 2).mean() + 1e-3 * code.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
