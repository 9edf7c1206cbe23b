# code: BS203
# variable: model
# cause: parameter.requires_grad = False
# fix: requires_grad_(True)
import torch
from torch import nn


def freeze(model):
    for parameter in model.parameters():
        parameter.requires_grad = False


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
model[2] = nn.Linear(8, 2)
freeze(model)
optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
for phase in ("train", "val"):
    with torch.set_grad_enabled(phase == "train"):
        loss = nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(2, (6,)))
    if phase == "train":
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
