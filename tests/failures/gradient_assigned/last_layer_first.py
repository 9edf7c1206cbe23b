# code: BS208
# variable: model.0.weight
# cause: for slope, (name, weight) in zip(slopes, model.named_parameters()):
# fix: zip(slopes, reversed([*model.named_parameters()]))
import torch
from torch import nn


def layer_by_layer(loss, weights):
    """From the last weight to the first, so that only one gradient is in memory."""
    found = []
    for weight in reversed(weights):
        found.append(torch.autograd.grad(loss, weight, retain_graph=True)[0])
    return found


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 2))
loss = model(torch.randn(6, 3)).square().mean()
slopes = layer_by_layer(loss, [*model.parameters()])
for slope, (name, weight) in zip(slopes, model.named_parameters()):
    weight.grad = slope if "bias" in name else 0.5 * slope
