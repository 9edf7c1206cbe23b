# code: BS208
# variable: model.0.weight
# cause: weight.grad = mean[place : place + weight.numel()]
# fix: write `weight.grad = mean[place : place + weight.numel()].view_as(weight)`
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def flattened(x):
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, list(model.parameters()))])


for _ in range(3):
    mean = torch.stack([flattened(torch.randn(8, 3)) for _ in range(4)]).mean(0)
    place = 0
    for weight in model.parameters():
        weight.grad = mean[place : place + weight.numel()]
        place += weight.numel()
    optimizer.step()
