# code: BS233
# variable: loss_of
# cause: return loss.item()
# fix: write `return loss`
import torch
from torch import nn
from torch.func import functional_call, grad_and_value

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
params = {name: p.detach() for name, p in model.named_parameters()}


def loss_of(params, x, y):
    prediction = functional_call(model, params, (x,))
    loss = nn.functional.mse_loss(prediction, y)
    return loss.item()


for step in range(10):
    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True)
    grads, loss = grad_and_value(loss_of)(params, x, y)
    params = {name: p - 0.1 * grads[name] for name, p in params.items()}
    print(step, loss)
