# code: BS203
# variable: lambda
# cause: return F.mse_loss(predicted.data, target)
# or: return F.mse_loss(predicted.detach(), target)
# fix: F.mse_loss(predicted, target)
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.functional import hvp

layer = nn.Linear(2, 1)
data, target = torch.randn(10, 2), torch.randn(10, 1)


def loss_of(weight):
    predicted = F.linear(data, weight, layer.bias.detach())
    return F.mse_loss(predicted.data, target)


value, product = hvp(lambda w: loss_of(w), layer.weight.detach(), torch.ones(1, 2), strict=True)
print(value.item(), product)
