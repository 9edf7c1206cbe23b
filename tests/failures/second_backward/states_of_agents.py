# code: BS201
# variable: agents.states
# cause: self.states[who] = self.cell(seen, self.states[who])
# fix: agents.states = {key: h.detach() for key, h in agents.states.items()}
import torch
from torch import nn

torch.manual_seed(0)


class Agents(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.head = nn.Linear(4, 1)
        self.states = {}

    def forward(self, who, seen):
        if who not in self.states:
            self.states[who] = self.cell(seen)
        else:
            self.states[who] = self.cell(seen, self.states[who])
        return self.head(self.states[who])


agents = Agents()
optimizer = torch.optim.Adam(agents.parameters(), lr=1e-2)
for step in range(4):
    loss = sum(agents(name, torch.randn(2, 3)).pow(2).mean() for name in ("left", "right"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
