# code: BS201
# variable: state["h"]
# cause: state["h"] = model(x + (0 if first else state["h"]))
# fix: state["h"] = state["h"].detach()
import torch
from torch import nn

torch.manual_seed(0)
model, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(5, 4)

state, table = {}, {}


def step(first):
    state["h"] = model(x + (0 if first else state["h"]))
    if first:
        table["t"] = torch.exp(head(x))
        head(state["h"]).square().sum().backward()
    else:
        (head(state["h"]) * table["t"]).square().sum().backward()


step(True)
step(False)
