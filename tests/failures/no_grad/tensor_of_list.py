# code: BS203
# variable: loss
# cause: return torch.tensor(values)
# fix: write `return torch.stack(values)`
import torch
from torch import nn

def gather_rewards(model, states):
    values = []
    for s in states:
        values.append(model(s).mean())
    return torch.tensor(values)

model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
states = [torch.randn(2, 3) for _ in range(4)]
for _ in range(2):
    loss = gather_rewards(model, states).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
