# code: BS209
# variable: states[i]
# cause: states = [states[i].squeeze_(0) for i in range(len(self.cells))]
# fix: .squeeze(0)
"""A recurrent network of cells takes the state of each layer out of one tensor."""

import torch
from torch import nn

torch.manual_seed(0)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.RNNCell(4, 4) for _ in range(2)])

    def forward(self, x, states):
        states = states.unbind(0)
        states = [states[i].squeeze_(0) for i in range(len(self.cells))]
        for row in x:
            for i, cell in enumerate(self.cells):
                states[i] = cell(row, states[i])
                row = states[i]
        return row, torch.stack(states).unsqueeze(1)


model = Layers()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
states, loss = torch.zeros(2, 1, 4), 0.0
for chunk in torch.randn(2, 3, 4):
    out, states = model(chunk, states)
    loss = loss + out.pow(2).mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()
