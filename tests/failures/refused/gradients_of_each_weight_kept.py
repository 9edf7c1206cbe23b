# code: BS200
# variable: weight.register_hook
# cause: self.handles.append(weight.register_hook(lambda grad, name=name: self.keep(name, grad)))
# fix: if weight.requires_grad:
import torch
from torch import nn


class Norms:
    """Keeps how large the gradient of each weight is, step by step."""

    def __init__(self, net):
        self.kept, self.handles = {}, []
        for name, weight in net.named_parameters():
            self.kept[name] = []
            self.handles.append(weight.register_hook(lambda grad, name=name: self.keep(name, grad)))

    def keep(self, name, grad):
        self.kept[name].append(grad.norm().item())


torch.manual_seed(0)
net = nn.Sequential()
net.add_module("embed", nn.Embedding(20, 6))
net.add_module("flatten", nn.Flatten())
net.add_module("read_out", nn.Linear(24, 2))
for parameter in net.embed.parameters():  # of another task
    parameter.requires_grad_(False)
norms = Norms(net)
optimizer = torch.optim.SGD(net.read_out.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randint(0, 20, (8, 4))), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
