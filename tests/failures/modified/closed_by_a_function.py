# code: BS202
# variable: gates
# cause: t[:, 0] = 0
# fix: gates = 
import torch


def close_first(t):
    t[:, 0] = 0


class Gates(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):
        gates = torch.sigmoid(self.lin(x))
        close_first(gates)
        return gates


model = Gates()
model(torch.randn(2, 3)).sum().backward()
