# code: BS205
# variable: net.weight
# cause: net.weight.mul_(net.bias)
# fix: new_weight = net.weight.mul(net.bias)
import torch

net = torch.nn.Linear(2, 2)
net.weight.mul_(net.bias)
