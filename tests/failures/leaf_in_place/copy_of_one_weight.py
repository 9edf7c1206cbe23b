# code: BS205
# variable: target.weight
# cause: target.weight.copy_(net.weight)
# fix: with torch.no_grad():
# or: target.weight.mul_(0.99).add_(net.weight, alpha=0.01)
import torch

net, target = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
target.weight.copy_(net.weight)
