# code: BS205
# variable: target.weight
# cause: tp.mul_(0.99).add_(p, alpha=0.01)
# fix: with torch.no_grad():
# or: tp.lerp_(p, 0.01)
# or: tp.copy_(p)
# or: tp.copy_(0.99 * tp + 0.01 * p)
# or: tp *= 0.99
import torch

net, target = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
for p, tp in zip(net.parameters(), target.parameters()):
    tp.mul_(0.99).add_(p, alpha=0.01)
