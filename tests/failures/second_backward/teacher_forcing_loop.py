# code: BS201
# variable: hidden
# cause: hidden = context.squeeze(0)
# fix: inside the loop
import torch
from torch import nn

encoder = nn.GRU(4, 8)
decoder = nn.GRUCell(4, 8)
readout = nn.Linear(8, 4)
modules = nn.ModuleList([encoder, decoder, readout])
optimizer = torch.optim.Adam(modules.parameters(), lr=1e-3)
source, target = torch.randn(6, 2, 4), torch.randn(5, 2, 4)
context = encoder(source)[-1]
hidden = context.squeeze(0)

for step in range(4):
    h = decoder(target[step], hidden)
    loss = nn.functional.mse_loss(readout(h), target[step + 1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
