# code: BS225
# variable: Point
# cause: return edit(grad_output[0])
# fix: `return (edit(grad_output[0]),)`
"""Points in a recurrent reader at which a gradient can be edited; the batch is one sequence."""

import torch
from torch import nn


class Point(nn.Module):
    def edit_gradient(self, edit):
        def full(module, grad_input, grad_output):
            return edit(grad_output[0])

        return self.register_full_backward_hook(full)

    def forward(self, x):
        return x


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.after, self.out = nn.GRU(3, 5, batch_first=True), Point(), nn.Linear(5, 1)

    def forward(self, x):
        return self.out(self.after(self.cell(x)[0]))


norms = []


def halve(g):
    norms.append(g.norm().item())
    halved = g / 2
    return halved


reader = Reader()
reader.after.edit_gradient(halve)
optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    reader(torch.randn(1, 6, 3)).square().mean().backward()
    optimizer.step()
