# code: BS201
# variable: memory["layers"] | memory | memory["layers"][k]
# cause: memory["layers"][k] = cell(x, memory["layers"][k])
# fix: detach()
"""A stacked LSTM whose states are kept from chunk to chunk, in the list of a dict."""

import torch
from torch import nn

torch.manual_seed(0)
cells = nn.ModuleList([nn.LSTMCell(4, 6), nn.LSTMCell(6, 6)])
readout = nn.Linear(6, 4)
optimizer = torch.optim.Adam([*cells.parameters(), *readout.parameters()], lr=1e-3)


def start(batch):
    return {"layers": [(torch.zeros(batch, 6), torch.zeros(batch, 6)) for _ in cells], "seen": 0}


def decode(x, memory):
    for k, cell in enumerate(cells):
        memory["layers"][k] = cell(x, memory["layers"][k])
        x, _ = memory["layers"][k]
    memory["seen"] += 1
    return readout(x)


def train_on(chunk, memory):
    loss = 0.0
    for now, after in zip(chunk, chunk[1:]):
        loss = loss + nn.functional.mse_loss(decode(now, memory), after)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


text = torch.randn(30, 3, 4)
memory = start(3)
for chunk in text.split(6):
    train_on(chunk, memory)
