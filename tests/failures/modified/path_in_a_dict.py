# code: BS202
# variable: states[2] | states[3]
# cause: states[step + 1] = cell(x, states[step])
# fix: states.update({
import torch

cell, states = torch.nn.GRUCell(3, 4), {0: torch.zeros(1, 4)}
sgd = torch.optim.SGD(cell.parameters(), lr=0.1)


def advance(step, x):
    states[step + 1] = cell(x, states[step])
    return states[step + 1].sum()


def update(step, x):
    loss = advance(step, x)
    loss.backward(retain_graph=True)
    sgd.step()


for step, x in enumerate(torch.randn(4, 1, 3)):
    update(step, x)
