# code: BS226
# variable: model[2]
# cause: per_sample = vmap(grad(loss), in_dims=(None, 0, 0))
# fix: vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
params = dict(model.named_parameters())


def loss(params, x, y):
    return (functional_call(model, params, (x,)) - y).pow(2).sum()


per_sample = vmap(grad(loss), in_dims=(None, 0, 0))
gradients = per_sample(params, torch.randn(8, 4), torch.randn(8, 1))
