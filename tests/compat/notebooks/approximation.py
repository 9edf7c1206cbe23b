"""torchID's second notebook: `delta` is overwritten by what is computed from it, and still gets a name."""

import json

import torch
from sleep import SimpleModel, table

from backsight.compat.torchid import find_leaves, identify_tensors, tag_model

torch.manual_seed(0)
dataset = table()
data_lab = torch.nn.functional.normalize(dataset[:, -1].unsqueeze(1), dim=1)
model = SimpleModel()
loss_fn = torch.nn.MSELoss()

delta = torch.FloatTensor([-1.4])
delta.requires_grad = True

for _ in range(1):
    y_pred = model(dataset[:, :-1])
    delta = delta / y_pred
    Y_pred = y_pred + delta
    loss = loss_fn(Y_pred, data_lab)
    leaves, paths = find_leaves(loss.grad_fn)
    tag_model(model)
    first_names = identify_tensors(leaves, approximate_search=paths)

names = [leaf.nmm for leaf in leaves]
print(json.dumps({"first": first_names, "names": names}))
