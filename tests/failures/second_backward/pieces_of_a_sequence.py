# code: BS201
# variable: memory
# cause: memory = cell(token, memory)
# fix: `memory = memory.detach()` below line 19
import torch
from torch import nn

torch.manual_seed(6)


def pieces(cell, tokens, length):
    """What the cell says of a long sequence, in pieces for truncated backpropagation."""
    memory = torch.zeros(tokens.shape[1], cell.hidden_size)
    said = []
    for k, token in enumerate(tokens, start=1):
        memory = cell(token, memory)
        said.append(memory)
        if k % length == 0:
            yield k, torch.stack(said)
            said.clear()


cell, read_out = nn.GRUCell(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *read_out.parameters()], lr=1e-3)
tokens, wanted = torch.randn(12, 2, 3), torch.randn(12, 2, 1)
truncated = pieces(cell, tokens, length=4)
for end, hidden in truncated:
    error = (read_out(hidden) - wanted[end - 4 : end]).square().mean()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
