# code: BS201
# variable: gate
# cause: gate = torch.sigmoid(gates(frame))
# fix: Store what gate is computed from
import torch
from torch import nn

torch.manual_seed(0)
gates, decoder = nn.Linear(4, 6), nn.Linear(4, 6)
optimizer = torch.optim.SGD([*gates.parameters(), *decoder.parameters()], lr=0.1)
gate = torch.sigmoid(gates(torch.randn(5, 4)))
for step in range(4):
    frame = torch.randn(5, 4)
    loss = (decoder(frame) * gate).square().mean()
    loss.backward()
    if step % 2:
        gate = torch.sigmoid(gates(frame))
        optimizer.step()
        optimizer.zero_grad()
