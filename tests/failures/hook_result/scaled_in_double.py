# code: BS225
# variable: p
# cause: return grad * scale.double()
# fix: .to(grad)
import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
scale = torch.tensor([0.5])


def scale_gradient(grad):
    return grad * scale.double()


for p in model.parameters():
    p.register_hook(scale_gradient)
model(torch.randn(8, 6)).mean().backward()
