# code: BS202
# variable: optimizer.step
# cause: layer.bias.register_post_accumulate_grad_hook(lambda p: optimizer.step())
# fix: write `layer.bias.register_post_accumulate_grad_hook(lambda p
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
for scale, layer in ((0.1, net[2]), (0.2, net[0])):
    optimizer = torch.optim.SGD(layer.parameters(), lr=scale)
    layer.bias.register_post_accumulate_grad_hook(lambda p: optimizer.step())
for _ in range(3):
    score = net(torch.randn(7, 4, requires_grad=True)).square().mean()
    score.backward()
