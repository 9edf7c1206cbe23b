"""torchID's first notebook: a leaf that no optimizer holds gathers a gradient, and is found and named."""

import json

import torch
from sleep import SimpleModel, table

from backsight.compat.torchid import find_leaves, identify_tensors, tag_model

torch.manual_seed(0)
dataset = table()
data_lab = torch.nn.functional.normalize(dataset[:, -1].unsqueeze(1), dim=1)
model = SimpleModel()
optim = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss_fn = torch.nn.MSELoss()

delta = torch.FloatTensor([-1.4])
delta.requires_grad = True

losses = []
for _ in range(20):
    y_pred = model(dataset[:, :-1])
    Y_pred = y_pred + delta
    loss = loss_fn(Y_pred, data_lab)
    losses.append(loss.item())
    optim.zero_grad()
    loss.backward()
    optim.step()

for _ in range(1):
    y_pred = model(dataset[:, :-1])
    Y_pred = y_pred + delta
    loss = loss_fn(Y_pred, data_lab)
    leaves, paths = find_leaves(loss.grad_fn)
    tag_model(model)
    identify_tensors(leaves)

print(
    json.dumps(
        {
            "losses": losses,
            "lingering": delta.grad.item(),
            "shapes": [list(leaf.shape) for leaf in leaves],
            "names": [leaf.nmm for leaf in leaves],
            "paths": [[type(node).__name__ for node in path] for path in paths],
        }
    )
)
