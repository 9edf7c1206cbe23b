# code: BS220
# variable: model.0.codes
# cause: parameter.requires_grad = True
# fix: if parameter.is_floating_point()
import torch
from torch import nn


class Quantized(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.scale = nn.Parameter(layer.weight.detach().abs().amax(1, keepdim=True) / 127)
        self.codes = nn.Parameter((layer.weight.detach() / self.scale.detach()).round().to(torch.int8), False)

    def forward(self, x):
        return x @ (self.codes * self.scale).t()


def unfreeze(model):
    for parameter in model.parameters():
        parameter.requires_grad = True


model = nn.Sequential(Quantized(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 1))
unfreeze(model)
model(torch.randn(2, 4)).sum().backward()
