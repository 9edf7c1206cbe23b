# code: BS208
# variable: inner.weight and inner.bias
# cause: layer.weight.data = layer.weight.data[:units]
# fix: optimizer.add_param_group({"params": [
import torch
from torch import nn
from torch.nn.functional import linear


def shrink(layer, units):
    layer.weight.data = layer.weight.data[:units]
    layer.bias.data = layer.bias.data[:units]


torch.manual_seed(0)
inner, outer = nn.Linear(3, 6), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*inner.parameters(), *outer.parameters()])
for step in range(2):
    x = torch.randn(5, 3)
    loss = outer(linear(x, inner.weight, inner.bias).tanh()).square().mean()
    if loss < 10:
        shrink(inner, 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
