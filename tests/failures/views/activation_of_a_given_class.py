# code: BS209
# variable: net.blocks.0.act
# cause: return self.act(self.norm(x))
# fix: write `act()`
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, act):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.act = act(inplace=True)

    def forward(self, x):
        return self.act(self.norm(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(4, nn.SiLU), Block(4, nn.SiLU))

    def forward(self, x):
        return self.blocks(x)


net, norms = Net(), []
for each in net.modules():
    if isinstance(each, nn.LayerNorm):
        each.register_full_backward_hook(lambda module, given, got: norms.append(got[0].norm().item()))
net(torch.randn(3, 4)).sum().backward()
