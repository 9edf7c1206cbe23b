# code: BS201
# variable: codes
# file: _batches.py
# cause: codes = torch.tanh(projection(noise))
# fix: inside the loop
import torch
from _batches import batches
from torch import nn

projection = nn.Linear(4, 6)
scorer = nn.Linear(6, 1)
optimizer = torch.optim.Adam([*projection.parameters(), *scorer.parameters()], lr=0.01)

for batch, target in batches(projection, steps=3):
    loss = nn.functional.mse_loss(scorer(batch), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
