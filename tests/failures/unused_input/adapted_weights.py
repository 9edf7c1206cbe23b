# code: BS204
# variable: weights['weight']
# cause: loss = (model(x) - y).pow(2).mean()
# fix: write `loss = (torch.func.functional_call(model, weights, (x,)) - y).pow(2).mean()`
import torch
from torch import nn

model = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
weights = dict(model.named_parameters())
for step in range(3):
    loss = (model(x) - y).pow(2).mean()
    grads = torch.autograd.grad(loss, tuple(weights.values()), create_graph=True)
    weights = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), grads)}
