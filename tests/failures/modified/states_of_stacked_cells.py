# code: BS202
# variable: memory
# cause: memory[level] = below
# fix: put memory_parts = [] above line 16, memory_parts.append(below) on line 18
import torch
from torch import nn

torch.manual_seed(0)
cells = nn.ModuleList([nn.GRUCell(4, 8), nn.GRUCell(8, 8)])
readout = nn.Linear(8, 1)
sgd = torch.optim.SGD([*cells.parameters(), *readout.parameters()], lr=0.1)


def advance(signal, memory):
    below = signal
    for level, cell in enumerate(cells):
        below = cell(below, memory[level])
        memory[level] = below
    return readout(below), memory


for _ in range(3):
    memory, guesses = torch.zeros(2, 6, 8), []
    for signal in torch.randn(5, 6, 4):
        guess, memory = advance(signal, memory)
        guesses.append(guess)
    sgd.zero_grad()
    torch.stack(guesses).square().mean().backward()
    sgd.step()
