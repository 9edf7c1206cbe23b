# code: BS201
# variable: state["h"]
# cause: state["h"] = torch.tanh(model(x + state["h"]))
# fix: state["h"] = state["h"].detach()
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)

state = {"h": torch.zeros(5, 4)}
for _ in range(2):
    state["h"] = torch.tanh(model(x + state["h"]))
    head(state["h"]).sum().backward()
