# code: BS202
# variable: registers
# cause: registers[target] += value
# fix: registers[target] = registers[target] + value
import torch
from torch import nn


class Machine(nn.Module):
    def __init__(self, program, width=6):
        super().__init__()
        self.program = program
        self.ops = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Sigmoid()) for _ in program)

    def forward(self, x):
        registers = dict(a=x)
        for op, (target, source, adds) in zip(self.ops, self.program):
            value = op(registers[source])
            if adds:
                registers[target] += value
            else:
                registers[target] = value
        return registers["b"]


machine = Machine([("b", "a", False), ("c", "b", False), ("b", "c", True)])
optimizer = torch.optim.SGD(machine.parameters(), lr=0.1)
for _ in range(2):
    loss = machine(torch.randn(3, 6)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
